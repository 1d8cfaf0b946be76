/* Children: fork, exit and wait of a program with memory, and posix_spawn and
 * wait of /bin/true.
 *
 *   children [MIB] [ROUNDS]
 *
 * MIB of memory are touched before. A system call and a child are host work.
 */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

extern char **environ;

static void wait_for(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid, "waitpid");
	check(status == 0, "a child ended badly");
}

static double us_of_fork(void)
{
	double start = seconds();
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0)
		_exit(0);
	wait_for(pid);
	return 1e6 * (seconds() - start);
}

static double us_of_spawn(void)
{
	char *argv[] = {"true", NULL};
	pid_t pid;
	double start = seconds();

	check(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) == 0, "cannot start /bin/true");
	wait_for(pid);
	return 1e6 * (seconds() - start);
}

int main(int argc, char **argv)
{
	size_t bytes = number(argc, argv, 1, 10) << 20, rounds = number(argc, argv, 2, 21);
	double *forks = calloc(rounds, sizeof *forks), *spawns = calloc(rounds, sizeof *spawns);
	char *memory = malloc(bytes);

	must(rounds > 0 && forks != NULL && spawns != NULL && memory != NULL, "calloc");
	memset(memory, 1, bytes);
	for (size_t i = 0; i < rounds; i++) {
		forks[i] = us_of_fork();
		spawns[i] = us_of_spawn();
	}
	check(memory[bytes / 2] == 1, "memory has changed");
	report("fork_us", median(forks, rounds));
	report("spawn_us", median(spawns, rounds));
	return 0;
}
