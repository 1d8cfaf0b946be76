/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trampoline, copied to a page below 4 GiB that trampoline.c shows at its physical address in both roots. A CPU enters in 64-bit
 * mode with its index in the node in EDI, and interrupts off. Roots of five levels and of four are exchanged with paging off (Intel
 * SDM vol. 3, 2.5, CR4.LA57), for which the CPU goes down to 32 bits. Nothing is pushed: all CPUs use this page, maybe at once.
 * There is no IDT until the kernel has its own: an NMI before that resets the machine.
 */
#include <linux/linkage.h>
#include <asm/msr-index.h>
#include <asm/processor-flags.h>

#include "enter.h"

	.section .rodata, "a"
	.balign	8
	.code64
SYM_DATA_START(margay_enter)
	cli
	cld
	movl	%edi, %ebp
	leaq	margay_enter(%rip), %rbx
	lidt	ENTER_NO_IDT(%rbx)
	lgdt	ENTER_GDTR(%rbx)
	ljmpl	*ENTER_FAR32(%rbx)

	.code32
SYM_INNER_LABEL(margay_enter_32, SYM_L_GLOBAL)
	movl	$0x10, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	%eax, %fs
	movl	%eax, %gs
	movl	%cr0, %eax
	andl	$~X86_CR0_PG, %eax
	movl	%eax, %cr0
	movl	$MSR_EFER, %ecx
	rdmsr
	andl	$~EFER_LME, %eax
	wrmsr
	movl	$(X86_CR4_PAE | X86_CR4_MCE), %eax
	movl	%eax, %cr4
	movl	ENTER_ROOT(%ebx), %eax
	movl	%eax, %cr3
	movl	$(EFER_SCE | EFER_LME | EFER_NX), %eax
	xorl	%edx, %edx
	wrmsr
	movl	$CR0_STATE, %eax
	movl	%eax, %cr0
	ljmpl	*ENTER_FAR64(%ebx)

	.code64
SYM_INNER_LABEL(margay_enter_64, SYM_L_GLOBAL)
	/* What was above 32 bits is undefined now. */
	movl	%ebx, %ebx
	movl	%ebp, %ebp
	movq	ENTER_START(%rbx), %rdi
	movq	%rdi, %rsi
	movq	ENTER_MAILBOX(%rbx), %rdx
	lock incl ENTER_ARRIVED(%rbx)
1:	movq	(%rdx, %rbp, 8), %rax
	testq	%rax, %rax
	jnz	2f
	pause
	jmp	1b
2:	jmpq	*%rax

SYM_DATA_END_LABEL(margay_enter, SYM_L_GLOBAL, margay_enter_end)
