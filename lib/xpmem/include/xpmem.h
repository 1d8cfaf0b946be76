/* XPMEM: processes attach each other's memory.
 *
 * The interface of libxpmem (github.com/hpc/xpmem): programs that were made for that one can be linked with this, and the other
 * way round. It needs /dev/xpmem, which every node of Margay has, and Linux with the module.
 *
 * Functions that return an id or an address return -1, and the others -1, with errno set when they fail.
 */
#ifndef XPMEM_H
#define XPMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that is offered: made by xpmem_make, good for every process. */
typedef int64_t xpmem_segid_t;
/* A permit to attach it: made by xpmem_get, good for the process that got it. */
typedef int64_t xpmem_apid_t;

/* Where an attachment begins. */
struct xpmem_addr {
	xpmem_apid_t apid; /* by this permit */
	off_t offset;      /* bytes from the beginning of what is offered; whole pages */
};

/* Length of an offer: up to the end of the process's memory. */
#define XPMEM_MAXADDR_SIZE ((size_t)(-1L))

/* How a permit lets memory be accessed. */
#define XPMEM_RDONLY 0x1
#define XPMEM_RDWR 0x2

/* Kind of permission: the mode of a file, 0777 at most. There is no other. */
#define XPMEM_PERMIT_MODE 0x1

/* errno of a process that has not opened the device (on Linux). */
#define XPMEM_ERRNO_NOPROC 2004

/* The version of the interface, 0x2XXXX. */
int xpmem_version(void);

/* Offers `size` bytes at `vaddr`, both whole pages, to those whom the mode `permit_value` (a number, cast) lets read or write.
 * EINVAL, EBUSY (no ids are left), ENOMEM. */
xpmem_segid_t xpmem_make(void *vaddr, size_t size, int permit_type, void *permit_value);
/* Takes the offer back. EINVAL, EACCES (another process's), ENOENT. */
int xpmem_remove(xpmem_segid_t segid);

/* Gets a permit; `permit_value` is ignored. EINVAL, EACCES, ENOENT, EBUSY, ENOMEM. */
xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type, void *permit_value);
/* Gives the permit back. EINVAL, EACCES (another process's), ENOENT. */
int xpmem_release(xpmem_apid_t apid);

/* Attaches `size` bytes, by a permit to read and write: returns their address, `vaddr` if that is not null. EINVAL (not inside of
 * what is offered; on Margay also: it cannot be there), EACCES, ENOENT (the offer was taken back). */
void *xpmem_attach(struct xpmem_addr addr, size_t size, void *vaddr);
/* Detaches what was attached at `vaddr`. EINVAL (other memory). */
int xpmem_detach(void *vaddr);

#ifdef __cplusplus
}
#endif

#endif
