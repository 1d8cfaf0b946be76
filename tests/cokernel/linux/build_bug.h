/* What host/cokernel/record.h needs of a kernel's headers, for a program that is none of Linux's. */
#ifndef MARGAY_TEST_BUILD_BUG_H
#define MARGAY_TEST_BUILD_BUG_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define static_assert _Static_assert
#ifndef offsetof
#define offsetof __builtin_offsetof
#endif

#endif
