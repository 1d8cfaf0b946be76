// What Linux writes behind pointers inside of an ioctl's structure counts as
// written: MADV_DONTNEED makes zeros of it again.
#include "../common/check.h"
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int is_zero(const unsigned char *bytes)
{
    for (int i = 0; i < PAGE_BYTES; i++)
        if (bytes[i] != 0)
            return 0;
    return 1;
}

int main(void)
{
    unsigned char *pages = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    need(pages != MAP_FAILED && fd >= 0, "mmap and socket");

    struct ifconf list = {.ifc_len = PAGE_BYTES, .ifc_buf = (char *)pages};
    check(ioctl(fd, SIOCGIFCONF, &list) == 0, "interfaces are listed");
    check(list.ifc_len == 0 || !is_zero(pages), "the list is filled in");
    check(madvise(pages, PAGE_BYTES, MADV_DONTNEED) == 0, "discarded");
    check(is_zero(pages), "the list is gone");

    // The command is the program's, in one page; the answer is Linux's, in the next, which the program never wrote.
    struct ethtool_value *link = (struct ethtool_value *)(pages + 3 * PAGE_BYTES - sizeof link->cmd);
    struct ifreq request = {.ifr_name = "lo", .ifr_data = (char *)link};
    link->cmd = ETHTOOL_GLINK;
    check(ioctl(fd, SIOCETHTOOL, &request) == 0, "the state of the link");
    check(madvise(pages + 3 * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED) == 0, "discarded");
    check(is_zero(pages + 3 * PAGE_BYTES), "the answer is gone");
    return check_done();
}
