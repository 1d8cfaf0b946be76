// ioctl of network interfaces: what changes one goes to Linux, which says who may.
//
// Regression: such requests were unknown (ENOTTY), whatever was wrong with them.
#include "../common/check.h"
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void)
{
    static const unsigned long changes[] = {SIOCSIFFLAGS, SIOCSIFADDR,   SIOCSIFDSTADDR, SIOCSIFBRDADDR, SIOCSIFNETMASK,
                                            SIOCSIFMTU,   SIOCSIFHWADDR, SIOCSIFTXQLEN,  SIOCSIFMETRIC,  SIOCSIFMAP};
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    need(fd >= 0, "socket");
    check(ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_LOOPBACK, "the loop is one");
    check_fails(ioctl(fd, SIOCSIFFLAGS, 8), EFAULT, "flags from nowhere");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct ifreq nobody = {.ifr_name = "nonesuch"};
        long result = ioctl(fd, changes[i], &nobody);
        check(result == -1, "change %zu of none: errno %d", i, errno);
    }
    return check_done();
}
