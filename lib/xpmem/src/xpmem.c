/* Each function is a request to /dev/xpmem, which is opened by the first. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "xpmem.h"

/* The requests and their structures (include/xpmem_internal.h of the module). */
enum { VERSION, MAKE, REMOVE, GET, RELEASE, ATTACH, DETACH };

struct make {
	uint64_t vaddr;
	size_t size;
	int permit_type;
	uint64_t permit_value;
	xpmem_segid_t segid;
};

struct get {
	xpmem_segid_t segid;
	int flags, permit_type;
	uint64_t permit_value;
	xpmem_apid_t apid;
};

struct attach {
	xpmem_apid_t apid;
	off_t offset;
	size_t size;
	uint64_t vaddr;
	int fd, flags;
};

/* -1 before it is opened. */
static atomic_int device = -1;

/* Opens the device in place of the descriptor `old`, unless another thread has done so. */
static int open_device(int old)
{
	int opened = open("/dev/xpmem", O_RDWR | O_CLOEXEC);
	if (opened == -1)
		return -1;
	if (atomic_compare_exchange_strong(&device, &old, opened))
		return opened;
	close(opened);
	return old;
}

static int request(unsigned number, void *arg)
{
	int fd = device;
	if (fd == -1)
		fd = open_device(-1);
	if (fd == -1)
		return -1;
	int ret = ioctl(fd, _IO('x', number), arg);
	if (ret == -1 && errno == XPMEM_ERRNO_NOPROC) { /* a child has its parent's descriptor */
		fd = open_device(fd);
		ret = fd == -1 ? -1 : ioctl(fd, _IO('x', number), arg);
	}
	return ret;
}

int xpmem_version(void)
{
	return request(VERSION, NULL);
}

xpmem_segid_t xpmem_make(void *vaddr, size_t size, int permit_type, void *permit_value)
{
	struct make make = { .vaddr = (uintptr_t)vaddr, .size = size, .permit_type = permit_type,
			     .permit_value = (uintptr_t)permit_value };
	return request(MAKE, &make) == 0 ? make.segid : -1;
}

int xpmem_remove(xpmem_segid_t segid)
{
	return request(REMOVE, &segid);
}

xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type, void *permit_value)
{
	(void)permit_value; /* programs give a mode, for which the module has no use: it wants 0 */
	struct get get = { .segid = segid, .flags = flags, .permit_type = permit_type };
	return request(GET, &get) == 0 ? get.apid : -1;
}

int xpmem_release(xpmem_apid_t apid)
{
	return request(RELEASE, &apid);
}

void *xpmem_attach(struct xpmem_addr addr, size_t size, void *vaddr)
{
	struct attach attach = { .apid = addr.apid, .offset = addr.offset, .size = size, .vaddr = (uintptr_t)vaddr,
				 .fd = device };
	return request(ATTACH, &attach) == 0 ? (void *)(uintptr_t)attach.vaddr : (void *)-1;
}

int xpmem_detach(void *vaddr)
{
	uint64_t word = (uintptr_t)vaddr;
	return request(DETACH, &word);
}
