/* Preloaded: the first fork of a program makes no child, and the program goes on as that child would. stress-ng forks for every
 * stressor and waits; a child of a rank runs on Linux, so that without this nothing of a stressor would run on the node. What a
 * stressor itself starts are children again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>

pid_t fork(void)
{
	static int stayed;
	pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	return stayed++ == 0 ? 0 : next();
}
