# What runs in ring 3 (programs.rs). Operands in braces are filled in there.
.pushsection .rodata.programs, "a"
.macro CALL number
  movl $\number, %eax
  syscall
.endm
.macro MUST_EQUAL a, b
  cmpq \a, \b
  jne fail
.endm
// The instruction must trap; the handler continues at r15.
.macro TRAPS instruction:vararg
  leaq 1f(%rip), %r15
  \instruction
  jmp fail
  1:
.endm
.global programs
programs:
fail: xorl %edi, %edi
CALL {exit}
pass: movl $1, %edi
CALL {exit}

// A call keeps all registers but rax, rcx and r11.
.global registers
registers:
movq %rsp, %xmm0
movl $1, %ebx; movl $2, %edx; movl $3, %esi; movl $4, %edi; movl $5, %ebp; movl $6, %r8d; movl $7, %r9d; movl $8, %r10d
movl $9, %r12d; movl $10, %r13d; movl $11, %r14d; movl $12, %r15d
CALL {nothing}
MUST_EQUAL $77, %rax
MUST_EQUAL $1, %rbx; MUST_EQUAL $2, %rdx; MUST_EQUAL $3, %rsi; MUST_EQUAL $4, %rdi; MUST_EQUAL $5, %rbp
MUST_EQUAL $6, %r8; MUST_EQUAL $7, %r9; MUST_EQUAL $8, %r10; MUST_EQUAL $9, %r12; MUST_EQUAL $10, %r13
MUST_EQUAL $11, %r14; MUST_EQUAL $12, %r15
movq %xmm0, %rax
MUST_EQUAL %rax, %rsp
// The handler changes rbx and requests a full return.
CALL {change_rbx}
MUST_EQUAL $0x1234, %rbx
jmp pass

// What a program must not do.
.global traps
traps:
TRAPS movq 8, %rax
TRAPS movb %al, {code}
TRAPS hlt
TRAPS cli
xorl %ecx, %ecx
TRAPS divl %ecx
movabsq $0xffff800000000000, %rbx
TRAPS movq (%rbx), %rax
movl ${data}, %ebx
TRAPS jmpq *%rbx
movabsq $0x800000000000, %rbx
TRAPS jmpq *%rbx
TRAPS int $0x80
TRAPS int $2
TRAPS int3
TRAPS .byte 0xf1
TRAPS sysenter
TRAPS inb $0x60, %al
TRAPS outb %al, $0xf4
TRAPS rdmsr
// Only with UMIP: CPUID leaf 7, bit 2 of ECX.
movl $7, %eax
xorl %ecx, %ecx
cpuid
testl $4, %ecx
jz 2f
TRAPS sgdt {data}
2:
TRAPS swapgs
TRAPS xsetbv
TRAPS ud2
// System calls with strange state: GS, AC, DF, TF; flags come back, the kernel does not mind.
movq $-1, %rax
wrgsbase %rax
pushfq
orl $0x40400, (%rsp)
popfq
CALL {nothing}
pushfq
popq %rbx
andl $0x40400, %ebx
MUST_EQUAL $0x40400, %rbx
TRAPS ud2
cld
rdgsbase %rax
MUST_EQUAL $-1, %rax
// A stack pointer that is no address, then a trap, then a call.
movq %rsp, %rbp
movabsq $0xdead800000000000, %rsp
TRAPS pushq %rax
CALL {nothing}
movq %rbp, %rsp
// Sent to a non-canonical address by the kernel.
leaq 1f(%rip), %r15
movabsq $0x900000000000, %rdi
CALL {go}
jmp fail
// And into the kernel's half, where it faults by itself.
1: leaq 1f(%rip), %r15
movabsq $0xffff900000000000, %rdi
CALL {go}
jmp fail
1: movl %cs, %eax
MUST_EQUAL $0x33, %rax
movl $0x7b, %eax
lsll %eax, %ebx
MUST_EQUAL $0, %rbx
jmp pass

// Two of these yield to each other; the top of the stack tells them apart.
.global switching
switching:
movq {data} + 0x2ff8, %rdi
leaq 0x1111(%rdi), %rbx
leaq {data}(, %rdi, 8), %r12
movq %rbx, %xmm3
punpcklqdq %xmm3, %xmm3
// With AVX the upper half, too.
call has_avx
jz 1f
vinsertf128 $1, %xmm3, %ymm3, %ymm3
1: pushq %rbx
fldl (%rsp)
movq %r12, %rdi
CALL {set_fs}
wrgsbase %r12
movl $500, %ebp
2: CALL {yield}
rdfsbase %rax
MUST_EQUAL %rax, %r12
rdgsbase %rax
MUST_EQUAL %rax, %r12
movq %xmm3, %rax
MUST_EQUAL %rax, %rbx
call has_avx
jz 3f
vextractf128 $1, %ymm3, %xmm4
movq %xmm4, %rax
MUST_EQUAL %rax, %rbx
3: decl %ebp
jnz 2b
fstpl (%rsp)
popq %rax
MUST_EQUAL %rax, %rbx
jmp pass
// ZF clear when XCR0 has AVX.
has_avx: pushq %rbx
movl $1, %eax
cpuid
popq %rbx
testl $0x10000000, %ecx
ret

// The image of a signal frame: saved, destroyed, loaded, garbled, loaded.
.global frames
frames:
movl $0x77, %ebx
movq %rbx, %xmm3
movl ${data}, %edi
CALL {save_fpu}
MUST_EQUAL $0, %rax
movl {data} + 464, %eax
MUST_EQUAL $0x46505853, %rax
pxor %xmm3, %xmm3
movl ${data}, %edi
CALL {load_fpu}
MUST_EQUAL $0, %rax
movq %xmm3, %rax
MUST_EQUAL $0x77, %rax
// Without the stamp only x87 and SSE count.
movl $0, {data} + 464
movl $0x55, {data} + 160 + 3 * 16
movl ${data}, %edi
CALL {load_fpu}
MUST_EQUAL $0, %rax
movq %xmm3, %rax
MUST_EQUAL $0x55, %rax
// Not there, not writable, not aligned.
movl ${data} + 0x100000, %edi
CALL {load_fpu}
MUST_EQUAL $14, %rax
movl ${code}, %edi
CALL {save_fpu}
MUST_EQUAL $14, %rax
movl ${data} + 8, %edi
CALL {save_fpu}
MUST_EQUAL $14, %rax
// All ones, but stamped: MXCSR, header and states as wrong as can be. Refused, and nothing is left of the old state.
movl $0xd, %eax
xorl %ecx, %ecx
cpuid
movl ${data}, %edi
movl $0x3000 / 8, %ecx
movq $-1, %rax
rep stosq
movl $0x46505853, {data} + 464
leal 4(%rbx), %eax
movl %eax, {data} + 468
movl %ebx, {data} + 480
movl $0x46505845, {data}(%rbx)
movl ${data}, %edi
CALL {load_fpu}
MUST_EQUAL $14, %rax
movq %xmm3, %rax
MUST_EQUAL $0, %rax
jmp pass

// Interrupted while it runs.
.global interrupted
interrupted:
movl $0x4321, %ebx
CALL {arm_timer}
movl $100000, %ebp
1: CALL {arm_timer}
MUST_EQUAL $0x4321, %rbx
testq %rax, %rax
jnz pass
movl $1000, %ecx
2: decl %ecx
jnz 2b
decl %ebp
jnz 1b
jmp fail
.global programs_end
programs_end:
.popsection
