/* The shortest program with output: how far the node had got when a program
 * first had something to say. Also timed from outside, from exec to exit. */
#include "bench.h"

int main(void)
{
	report("main_tsc", (double)tsc());
	return 0;
}
