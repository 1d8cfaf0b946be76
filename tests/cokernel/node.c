/* A kernel that does nothing but what test cokernel sees: checks the state that CPUs enter in, logs, rings, takes doorbells and, by
 * words in the communication area, orders of device.c.
 *
 * It is the node's kernel in the place of Margay's: the tests of margay.ko need one whose every step is known, and that misbehaves.
 */
#include "orders.h"
#include "record.h"

#define BASE 0xffffffff80000000UL
#define APIC 0xfffffffffee00000UL /* where the tables below show 0xfee00000 */
#define PRESENT_WRITE 3UL
#define LARGE 0x80UL
#define UNCACHED 0x18UL

static struct margay_record *const record = (void *)BASE;
static volatile u64 *comm;
static volatile u32 arrived;

static u64 root[512] __attribute__((aligned(4096))), upper[512] __attribute__((aligned(4096)));
static u64 image[512] __attribute__((aligned(4096))), devices[512] __attribute__((aligned(4096)));
static u64 gdt[] = { 0, 0x00af9b000000ffff, 0x00cf93000000ffff };
static struct {
	u16 low, selector, type, middle;
	u32 high, zero;
} idt[256] __attribute__((aligned(16)));
struct table {
	u16 limit;
	u64 address;
} __attribute__((packed));
__attribute__((used)) static u8 stacks[8][8192] __attribute__((aligned(16)));

/* The others' stacks lie behind that of the first. */
asm(".globl enter\n"
    "enter: mov $stacks + 8192, %rsp\n"
    "	call first\n"
    "second_enter: mov $8192, %eax\n"
    "	lock xadd %eax, second_stack(%rip)\n"
    "	lea stacks + 16384(%rax), %rsp\n"
    "	call second\n"
    ".data\n"
    "second_stack: .long 0\n"
    ".text\n");
void second_enter(void);

static void out(const char *text)
{
	u64 at = record->log_end;

	for (; *text; text++)
		record->log[at++ % MARGAY_LOG_BYTES] = *text;
	__atomic_store_n(&record->log_end, at, __ATOMIC_RELEASE);
}

static void out_number(const char *name, u64 number)
{
	char text[20], *at = text + sizeof(text) - 1;

	*at = 0;
	do
		*--at = "0123456789abcdef"[number % 16];
	while (number /= 16);
	out(name);
	out(at);
	out("\n");
}

static void apic_write(u32 at, u32 value)
{
	*(volatile u32 *)(APIC + at) = value;
}

static void ring(u32 bell)
{
	__atomic_fetch_or(&record->bells[bell / 64], 1ULL << bell % 64, __ATOMIC_SEQ_CST);
	while (*(volatile u32 *)(APIC + 0x300) & 1 << 12)
		;
	apic_write(0x310, (u32)record->bell_apic_id << 24);
	apic_write(0x300, (u32)record->bell_vector);
}

/* Each doorbell is counted where device.c sees it, and answered by the bell of that CPU. */
__attribute__((interrupt)) static void on_doorbell(void *frame)
{
	u32 self = *(volatile u32 *)(APIC + 0x20) >> 24, cpu = 0;

	(void)frame;
	while (cpu < record->cpu_count && (u32)record->cpus[cpu] != self)
		cpu++;
	comm[NODE_DOORBELLS + cpu]++;
	apic_write(0xb0, 0);
	ring(cpu);
}

/* Interrupts that Linux left pending in this APIC. */
__attribute__((interrupt)) static void on_other(void *frame)
{
	(void)frame;
	apic_write(0xb0, 0);
}

__attribute__((interrupt)) static void on_spurious(void *frame)
{
	(void)frame;
}

static void set_gate(int vector, void *handler)
{
	u64 at = (u64)handler;

	idt[vector].low = at;
	idt[vector].selector = 8;
	idt[vector].type = 0x8e00;
	idt[vector].middle = at >> 16;
	idt[vector].high = at >> 32;
}

static void set_up_tables(u64 start)
{
	root[511] = ((u64)upper - BASE + start) | PRESENT_WRITE;
	upper[510] = ((u64)image - BASE + start) | PRESENT_WRITE;
	upper[511] = ((u64)devices - BASE + start) | PRESENT_WRITE;
	for (u64 i = 0; i < 32; i++)
		image[i] = (start + (i << 21)) | PRESENT_WRITE | LARGE;
	devices[0xfee00000UL >> 21 & 511] = 0xfee00000UL | PRESENT_WRITE | LARGE | UNCACHED;
	for (int vector = 32; vector < 255; vector++)
		set_gate(vector, on_other);
	set_gate(0x40, on_doorbell);
	set_gate(0xff, on_spurious);
}

static void set_up_cpu(u64 start)
{
	struct table gdtr = { sizeof(gdt) - 1, (u64)gdt }, idtr = { sizeof(idt) - 1, (u64)idt };

	asm volatile("lgdt %0; lidt %1" : : "m"(gdtr), "m"(idtr));
	asm volatile("mov %0, %%cr3" : : "r"((u64)root - BASE + start) : "memory");
	apic_write(0x80, 0);
	apic_write(0xf0, 0x1ff);
}

/* wire/src/cokernel.rs has the state. */
static void check_entry(u64 rdi, u64 rsi)
{
	u64 cr0, cr4, flags;
	u32 low, high;
	u16 cs, ss;

	asm volatile("mov %%cr0, %0; mov %%cr4, %1; pushfq; pop %2" : "=r"(cr0), "=r"(cr4), "=r"(flags));
	asm volatile("mov %%cs, %0; mov %%ss, %1" : "=r"(cs), "=r"(ss));
	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(0xc0000080));
	if (rdi != record->memory.start || rsi != rdi || cs != 8 || ss != 0x10 || flags & 0x600)
		out("wrong registers\n");
	if (cr0 != 0x80050033 || cr4 != 0x60 || (low & 0xfff) != 0xd01)
		out_number("wrong control registers, cr4 ", cr4);
	/* As the direct map shows it. */
	if (*(volatile u64 *)(0xffff800000000000UL + rdi) != MARGAY_MAGIC || record->version != MARGAY_RECORD_VERSION)
		out("no record\n");
}

static void obey(void)
{
	u64 order = comm[NODE_ORDER];

	comm[NODE_ORDER] = 0;
	if (order == NODE_END) {
		out("ends\n");
		__atomic_store_n(&record->ended, 1 + 6, __ATOMIC_RELEASE);
		ring(256);
	} else if (order == NODE_HANG) {
		asm volatile("cli");
		for (;;)
			;
	} else if (order == NODE_TALK) {
		for (u64 line = 0; line < 20000; line++)
			out_number("line ", line);
		ring(256);
	} else if (order == NODE_WRITE) {
		for (u64 i = 0; i < 512; i++)
			*(volatile u64 *)(BASE + NODE_SHOWN + i * 4096) = i;
		ring(256);
	}
}

__attribute__((used)) void first(u64 rdi, u64 rsi)
{
	comm = (void *)(BASE + record->comm.start - rsi);
	check_entry(rdi, rsi);
	set_up_tables(rsi);
	set_up_cpu(rsi);
	for (u64 cpu = 1; cpu < record->cpu_count; cpu++)
		__atomic_store_n(&record->mailbox[cpu], (u64)second_enter, __ATOMIC_RELEASE);
	while (arrived + 1 < record->cpu_count)
		asm volatile("pause");
	record->shown[0] = (struct margay_range){ rsi + NODE_SHOWN, NODE_SHOWN_BYTES };
	record->shown[1] = (struct margay_range){ rsi + NODE_SHOWN + NODE_SHOWN_BYTES, NODE_SHOWN_BYTES };
	record->shown[2] = (struct margay_range){ rsi + NODE_BYTES - POOL_BYTES, POOL_BYTES };
	__atomic_store_n(&record->shown_count, 3, __ATOMIC_RELEASE);
	out_number("up, cpus ", record->cpu_count);
	out_number("pct ", *(u64 *)(BASE + record->pct.start - rsi));
	ring(256);
	for (;;) {
		obey();
		/* An order may come between. */
		asm volatile("cli");
		if (!comm[NODE_ORDER])
			asm volatile("sti; hlt");
		asm volatile("sti");
	}
}

__attribute__((used)) void second(u64 rdi, u64 rsi)
{
	check_entry(rdi, rsi);
	set_up_cpu(rsi);
	__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
	for (;;)
		asm volatile("sti; hlt");
}
