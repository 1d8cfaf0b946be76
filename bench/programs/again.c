/* One process executes Python again and again: how long from execve to the end
 * of a script, the first time and later.
 *
 *   again [SCRIPT] [ROUNDS]
 *
 * Python's last statement executes this program again, so a round is two
 * execve; what a round needs is in the arguments that Python hands back.
 * So Python's own end is not in it. Python runs without `site`, which would
 * load whatever other packages have added.
 */
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { MOST_ROUNDS = 50, OWN = 3, TEXT = 1024 };

static char python[] = "/usr/bin/python3";
static char *environment[] = {
	"PATH=/usr/bin:/bin",
	"LC_ALL=C.UTF-8",
	"PYTHONPATH=/usr/lib/python3/dist-packages",
	/* The host's files stay as they are. */
	"PYTHONDONTWRITEBYTECODE=1",
	NULL,
};

/* Arguments: the program, its own two, when the round began, and what the rounds before took. */
static _Noreturn void next_round(char **argv, int argc)
{
	static char script[TEXT], start[32];
	char *words[MOST_ROUNDS + OWN + 8] = { python, "-S", "-c", script };

	snprintf(script, sizeof script, "%s\nimport os, sys\nos.execv(sys.argv[1], sys.argv[1:])\n",
		 argv[1]);
	memcpy(words + 4, argv, (size_t)argc * sizeof *argv);
	snprintf(start, sizeof start, "%llu", (unsigned long long)tsc());
	words[4 + OWN] = start;
	execve(python, words, environment);
	must(0, python);
	exit(1);
}

int main(int argc, char **argv)
{
	uint64_t now = tsc(), rounds = number(argc, argv, 2, 11);
	char *words[MOST_ROUNDS + OWN + 2] = { NULL, "pass", "11", "0" }, took[32];

	check(rounds > 1 && rounds <= MOST_ROUNDS && argc <= MOST_ROUNDS + OWN + 1, "ROUNDS is 2 to 50");
	for (int i = 0; i < argc; i++)
		words[i] = argv[i];
	if (argc <= OWN)
		next_round(words, OWN + 1);
	snprintf(took, sizeof took, "%llu", (unsigned long long)(now - number(argc, argv, OWN, 0)));
	words[argc++] = took;
	if ((uint64_t)(argc - OWN - 1) < rounds)
		next_round(words, argc);
	double ticks[MOST_ROUNDS];
	for (uint64_t i = 0; i < rounds; i++)
		ticks[i] = (double)number(argc, words, OWN + 1 + (int)i, 0);
	report("first_ticks", ticks[0]);
	report_series("again_ticks", ticks + 1, rounds - 1);
	return 0;
}
