/* An interval timer, by the TSC: from the first signal to the last of COUNT; and
 * as many sleeps of an interval.
 *
 *   timers [INTERVAL-US] [COUNT]
 *
 * Under icount the program's turns are the clock, so that what a loaded host
 * does meanwhile is not in it.
 */
#include <signal.h>
#include <sys/time.h>

#include "bench.h"

static volatile sig_atomic_t caught;
static volatile uint64_t last;

static void count(int signo)
{
	(void)signo;
	caught++;
	last = tsc();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = count };
	long interval_us = (long)number(argc, argv, 1, 1000);
	int wanted = (int)number(argc, argv, 2, 20);
	struct itimerval timer = { { 0, interval_us }, { 0, interval_us } }, left;
	uint64_t first;

	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	uint64_t set = tsc();
	must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
	must(getitimer(ITIMER_REAL, &left) == 0, "getitimer");
	while (caught == 0)
		;
	first = last;
	while (caught < wanted + 1)
		;
	uint64_t end = last;
	timer = (struct itimerval){ 0 };
	must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");

	struct timespec nap = { 0, 1000 * interval_us };
	uint64_t asleep = tsc();
	for (int i = 0; i < wanted; i++)
		must(nanosleep(&nap, NULL) == 0, "nanosleep");
	uint64_t awake = tsc();

	report("sleep_ticks", (double)(awake - asleep) / wanted);
	report("first_ticks", (double)(first - set));
	report("interval_ticks", (double)(end - first) / wanted);
	report("left_us", (double)left.it_value.tv_usec);
	report("interval_left_us", (double)left.it_interval.tv_usec);
	return 0;
}
