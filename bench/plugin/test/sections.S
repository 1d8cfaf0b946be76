/* A guest by itself whose sections with interrupts off have known lengths, for
 * bench/tests/plugin.rs. QEMU loads it as a Multiboot image, in 32-bit mode with
 * interrupts off; the last instruction ends QEMU (isa-debug-exit).
 *
 * A region each: CLI to STI; the same twice with a window between them that lets
 * nothing in; with one that does; a handler; CLI to POPF; a handler that returns to a CLI.
 */
#include "../mark.h"

#define ROUNDS 1000
#define MULTIBOOT 0x1badb002

	.text
	.long MULTIBOOT, 0, -MULTIBOOT

.macro begin
	.byte 0x0f, 0x1f, 0x84, 0x00
	.long MARK_BEGIN
.endm
.macro end
	.byte 0x0f, 0x1f, 0x84, 0x00
	.long MARK_END
.endm
/* 1 + 2 * ROUNDS instructions. */
.macro work
	mov $ROUNDS, %ecx
1:	dec %ecx
	jnz 1b
.endm

	.globl _start
_start:	lgdt gdt_pointer
	ljmp $8, $2f
2:	mov $16, %eax
	mov %eax, %ss
	mov $stack, %esp
	mov $handler, %eax
	mov %ax, gate
	shr $16, %eax
	mov %ax, gate + 6
	lidt idt_pointer
	/* No interrupt comes by itself: both 8259 are masked. */
	mov $0xff, %al
	out %al, $0x21
	out %al, $0xa1
	sti
	nop

	begin
	cli
	work
	sti
	nop
	end

	begin
	cli
	work
	sti
	cli
	work
	sti
	nop
	end

	begin
	cli
	work
	sti
	nop
	cli
	work
	sti
	nop
	end

	begin
	int $0
	nop
	end

	begin
	cli
	work
	push $0x202
	popf
	nop
	end

	begin
	int $0
	cli
	work
	sti
	nop
	end

	mov $0, %eax
	out %eax, $0xf4
3:	jmp 3b

handler:
	work
	iret

	.data
	.balign 8
gdt:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_pointer:
	.word . - gdt - 1
	.long gdt
	.balign 8
/* An interrupt gate (Intel SDM vol. 3, 6.11), which turns interrupts off. */
gate:	.word 0, 8, 0x8e00, 0
idt_pointer:
	.word 7
	.long gate
	.space 256
stack:
