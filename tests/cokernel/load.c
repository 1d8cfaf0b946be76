/* Loads the module that is named, in the guest; without a name unloads margay.ko; with two words waits until the file that is named first
 * begins with the second. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whoever runs this has a limit. */
static void wait_for(const char *path, const char *text)
{
	char found[16] = "";

	while (strncmp(found, text, strlen(text))) {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		if (read(file, found, sizeof(found)) < 0)
			perror(path);
		close(file);
		sched_yield();
	}
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		if (syscall(SYS_delete_module, "margay", O_NONBLOCK) == 0)
			return 0;
		perror("margay");
		return 1;
	}
	if (argc > 2) {
		wait_for(argv[1], argv[2]);
		return 0;
	}
	int module = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (module >= 0 && syscall(SYS_finit_module, module, "", 0) == 0)
		return 0;
	perror(argv[1]);
	return 1;
}
