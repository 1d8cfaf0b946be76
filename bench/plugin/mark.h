/* Marks of a measured region, for the counting plugin (README.md). Each is one
 * long no-op with a displacement that no compiler chooses, so a program with
 * marks runs unchanged everywhere: natively, on any kernel, without a plugin.
 */
#ifndef MARGAY_MARK_H
#define MARGAY_MARK_H

/* NOP r/m32, Intel SDM vol. 2B; the displacements are "mrgB" and "mrgE" in the
 * order of the bytes. plugin.c looks for these eight bytes. Between a mark and
 * the code that it encloses a compiler may put a few instructions of its own. */
#define MARK_BEGIN 0x4267726d
#define MARK_END 0x4567726d

#ifndef __ASSEMBLER__

static inline void mark_begin(void)
{
	__asm__ volatile("nopl %c0(%%rax,%%rax,1)" ::"i"(MARK_BEGIN) : "memory");
}

static inline void mark_end(void)
{
	__asm__ volatile("nopl %c0(%%rax,%%rax,1)" ::"i"(MARK_END) : "memory");
}

#endif
#endif
