/* What the checks of /dev/margay share. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "margay.h"
#include "orders.h"

#define MIB (1UL << 20)
#define COMM_OFFSET MIB
#define COMM_BYTES (64UL << 10)

/* Ends this process when it does not hold; counts it when it does. */
#define CHECK(ok) check(!!(ok), #ok, __FILE__, __LINE__)
/* That a call fails with this error. */
#define FAILS(error, call) check_fails((long)(call), error, #call, __FILE__, __LINE__)
void check(int ok, const char *what, const char *file, int line);
void check_fails(long result, int error, const char *what, const char *file, int line);

/* A node of device.c's usual size on CPUs first..first + count - 1. */
struct node {
	int fd, memory;
	int log, bell0, ring[8];
	volatile uint64_t *comm;
	unsigned count;
};

struct margay_reserve usual(unsigned first, unsigned count);
struct node reserved(unsigned first, unsigned count);
struct node started(unsigned first, unsigned count);
void order(struct node *node, uint64_t what);
void leave(struct node *node);
/* Whether it becomes readable in five seconds. */
int rings(int eventfd);
int online(unsigned cpu);
int set_online(unsigned cpu, int on);
long free_kib(void);
void load_module(void);
int unload_module(void);
void put(const char *path, const void *bytes, size_t count);

/* use.c: what a keeper and proxies do. */
void check_life(void);
void check_mappings(void);
void check_bells(void);
void check_returns(void);
/* abuse.c: what they must not. */
void check_numbers(void);
void check_files(void);
void check_rivals(void);
void check_power(void);
void check_races(void);
void check_kills(void);

#endif
