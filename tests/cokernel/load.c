/* Loads the module that is named, in the guest; without a name unloads margay.ko. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		if (syscall(SYS_delete_module, "margay", O_NONBLOCK) == 0)
			return 0;
		perror("margay");
		return 1;
	}
	int module = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (module >= 0 && syscall(SYS_finit_module, module, "", 0) == 0)
		return 0;
	perror(argv[1]);
	return 1;
}
