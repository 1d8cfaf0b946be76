/* Linked into the programs whose memory costs are modelled: marks the region from
 * before main to after it, for the plugin (plugin/README.md). The C library writes
 * what is left in its buffers after the second mark. */
#include "plugin/mark.h"

static __attribute__((constructor)) void before_main(void)
{
	mark_begin();
}

static __attribute__((destructor)) void after_main(void)
{
	mark_end();
}
