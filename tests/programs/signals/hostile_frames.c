// Returns through hostile signal frames: every field in turn with every value
// that has ever harmed a kernel, then SEED's random ones. What the program then
// meets (a signal, with its code, or nothing) must be what it meets on Linux,
// and the system that runs it must live.
//
// The frame that is returned to lies on the alternate stack and is a copy of a
// real one, which resumes at `landed` with the stack as it was: without a
// mutation the program goes on there.
#include "../common/check.h"
#include <sys/syscall.h>
#include <ucontext.h>

enum { FRAME_BYTES = 16384, WORDS = 39, ALTSTACK = 3, FPU_WORD = 6 + 23, SELECTORS = 6 + 18, RIP = 6 + 16, RSP = 6 + 15, FLAGS = 6 + 17 };
// Behind AVX lie protection keys, where a CPU has them: no memory could be touched.
enum { AVX_END = 832 };
enum { MXCSR = 24, SW_BYTES = 464, EXTENDED_SIZE = 468, XSTATE_SIZE = 480, XSTATE_BV = 512, XCOMP_BV = 520, RESERVED = 528, EXPANSION_BIT = 63 };

// pretcode, struct ucontext and siginfo, then the FPU image.
static unsigned char frame[FRAME_BYTES] __attribute__((aligned(64)));
static unsigned char handler_stack[65536];
static uint64_t frame_words[WORDS];
static unsigned char fpu_image[8192];
static size_t fpu_bytes;
static sigjmp_buf back;
static volatile int took_frame;

static void take(int signo, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    uint32_t sizes[6];
    (void)signo;
    (void)info;
    memcpy(frame_words, (char *)context - 8, sizeof frame_words);
    memcpy(sizes, (char *)u->uc_mcontext.fpregs + SW_BYTES, sizeof sizes);
    fpu_bytes = sizes[1];
    need(fpu_bytes <= sizeof fpu_image, "a smaller FPU image");
    memcpy(fpu_image, u->uc_mcontext.fpregs, fpu_bytes);
    took_frame++;
}

// On its own stack, for the frame may have set any stack pointer.
static void meet(int signo, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    fault_seen.signo = signo;
    fault_seen.code = info->si_code;
    fault_seen.addr = (void *)(r[REG_TRAPNO] == 14 ? (uintptr_t)r[REG_CR2] : 0);
    siglongjmp(back, 1);
}

static void arm(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_sigaction = meet, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    for (int i = 0; i < 5; i++)
        need(sigaction(signals[i], &action, NULL) == 0, "sigaction");
}

void landed(void)
{
    fault_seen.signo = fault_seen.code = 0;
    siglongjmp(back, 1);
}

// Returns through the frame at `frame`; what came of it is in fault_seen.
__attribute__((noinline)) static void return_through(void)
{
    __asm__ volatile("fninit\n\tmov %0, %%rsp\n\tmov %1, %%eax\n\tsyscall\n\tud2" ::"r"(frame + 8), "i"(SYS_rt_sigreturn) : "memory");
    __builtin_unreachable();
}

char calm_stack[65536] __attribute__((aligned(64)));
__asm__(".set calm_stack_end, calm_stack+65536");

// A frame that resumes at `landed`.
static uint64_t *fresh(void)
{
    uint64_t *words = (uint64_t *)frame;
    unsigned char *image = frame + 1024;
    memset(frame, 0, sizeof frame);
    memcpy(words, frame_words, sizeof frame_words);
    memcpy(image, fpu_image, fpu_bytes);
    words[ALTSTACK] = (uint64_t)handler_stack;
    words[ALTSTACK + 1] = 0;
    words[ALTSTACK + 2] = sizeof handler_stack;
    words[RIP] = (uint64_t)landed;
    words[RSP] = (uint64_t)(calm_stack + sizeof calm_stack - 8);
    words[FLAGS] = 0x202;
    words[FPU_WORD] = (uint64_t)image;
    words[WORDS - 1] = 0; // no signal blocked
    return words;
}

// One line of what came of a frame; addresses only where they are the frame's own.
static void try(const char *what, uint64_t value, int shown)
{
    if (sigsetjmp(back, 1) == 0)
        return_through();
    // siglongjmp restores no flags: AC and DF of the frame would stay.
    __asm__ volatile("pushf\n\tandl $~0x40400, (%%rsp)\n\tpopf" ::: "cc", "memory");
    if (shown)
        printf("%s %llx: signal %d, code %d\n", what, (unsigned long long)value, fault_seen.signo, fault_seen.code);
    arm(); // the frame may have brought another alternate stack
}

static const uint64_t hostile[] = {
    0, 1, 8, 0x7fffffffffff, 0x800000000000, 0x800000000001, 0x7fffffffffff0000, 0x8000000000000000, 0xffff800000000000,
    0xffffffff80000000, 0xffffffffff600000, 0xffffffffffffffff, 0xffff7fffffffffff, 0xffffff0000000000,
};

static void addresses(void)
{
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        // vsyscall pages return to what the stack says; not every Linux has one.
        if (hostile[i] != 0xffffffffff600000) {
            fresh()[RIP] = hostile[i];
            try("rip", hostile[i], 1);
        }
        fresh()[RSP] = hostile[i];
        // The first push faults: with SIGBUS where the address is not canonical, but QEMU's TCG makes it SIGSEGV.
        try("rsp", hostile[i], 0);
        printf("rsp %llx: signal %s\n", (unsigned long long)hostile[i], fault_seen.signo ? "7 or 11" : "0");
        fresh()[FPU_WORD] = hostile[i];
        try("fpu", hostile[i], 1);
        fresh()[ALTSTACK] = hostile[i];
        try("altstack", hostile[i], 1);
    }
    for (int shift = 1; shift < 64; shift++) {
        fresh()[FPU_WORD] += (uint64_t)shift;
        memmove(frame + 1024 + shift, frame + 1024, fpu_bytes);
        try("misaligned fpu", (uint64_t)shift, 1);
    }
}

static void selectors(void)
{
    // Not those of another kind of program: code segments for 32 bits.
    static const uint16_t bad[] = {0, 3, 8, 0xb, 0x10, 0x13, 0x18, 0x1b, 0x2b, 0x28, 0x40, 0x43, 0x48, 0x7b, 0xff, 0xfff8, 0xffff};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t cs = fresh()[SELECTORS] & ~UINT64_C(0xffff);
        ((uint64_t *)frame)[SELECTORS] = cs | bad[i];
        try("cs", bad[i], 1);
        for (int strict = 0; strict < 2; strict++) {
            uint64_t *words = fresh();
            words[SELECTORS] = (words[SELECTORS] & ~(UINT64_C(0xffff) << 48)) | (uint64_t)bad[i] << 48;
            words[1] = strict ? 7 : 3;
            try(strict ? "strict ss" : "ss", bad[i], 1);
        }
    }
    for (int bit = 0; bit < 64; bit++) {
        fresh()[FLAGS] ^= UINT64_C(1) << bit;
        if (bit != 8 && bit != 18) // a trap after one instruction, and alignment checks in the C library
            try("flag", (uint64_t)bit, 1);
    }
}

static void put(int at, uint64_t value) { memcpy(frame + 1024 + at, &value, sizeof value); }
static uint64_t get(int at)
{
    uint64_t value;
    memcpy(&value, frame + 1024 + at, sizeof value);
    return value;
}

static void images(void)
{
    for (int bit = 0; bit < 32; bit++) {
        fresh();
        put(MXCSR, get(MXCSR) ^ UINT64_C(1) << bit);
        if ((bit < 7 || bit > 12) && bit != 17) // unmasked exceptions wait for an instruction; MM only some CPUs have
            try("mxcsr", (uint64_t)bit, 1);
    }
    for (int bit = 8; bit < EXPANSION_BIT; bit++) {
        if (bit == 9 || bit == 17 || bit == 18 || bit == 11 || bit == 12 || bit == 10 || bit == 13)
            continue; // states that CPUs may have
        fresh();
        put(XSTATE_BV, get(XSTATE_BV) ^ UINT64_C(1) << bit);
        try("xstate_bv", (uint64_t)bit, 1);
        fresh();
        put(XCOMP_BV, UINT64_C(1) << bit);
        try("xcomp_bv", (uint64_t)bit, 1);
    }
    for (int at = RESERVED; at < 576; at += 8) {
        fresh();
        put(at, 1);
        try("header", (uint64_t)at, at < 536); // hardware looks at the first words
    }
    for (int bit = 0; bit < 64; bit++) {
        fresh();
        put(SW_BYTES, get(SW_BYTES) ^ UINT64_C(1) << bit);
        try("magic1, extended_size", (uint64_t)bit, 1);
        fresh();
        put(SW_BYTES + 16, get(SW_BYTES + 16) ^ UINT64_C(1) << (bit & 31));
        try("xstate_size", (uint64_t)bit, 1);
    }
    fresh();
    memset(frame + 1024 + fpu_bytes - 4, 0, 4);
    try("magic2", 0, 1);
}

static uint64_t state;
static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33 ^ state << 31;
}

// Where a random frame resumes: stores the registers, for there is no stack that could be used.
extern char resumed[];
uint64_t resumed_words[16], resumed_flags; // in the order of a frame, with rsp, without rip
__asm__(".globl resumed\n"
        "resumed:\n\t"
        "mov %r8, resumed_words+0(%rip)\n\tmov %r9, resumed_words+8(%rip)\n\tmov %r10, resumed_words+16(%rip)\n\t"
        "mov %r11, resumed_words+24(%rip)\n\tmov %r12, resumed_words+32(%rip)\n\tmov %r13, resumed_words+40(%rip)\n\t"
        "mov %r14, resumed_words+48(%rip)\n\tmov %r15, resumed_words+56(%rip)\n\tmov %rdi, resumed_words+64(%rip)\n\t"
        "mov %rsi, resumed_words+72(%rip)\n\tmov %rbp, resumed_words+80(%rip)\n\tmov %rbx, resumed_words+88(%rip)\n\t"
        "mov %rdx, resumed_words+96(%rip)\n\tmov %rax, resumed_words+104(%rip)\n\tmov %rcx, resumed_words+112(%rip)\n\t"
        "mov %rsp, resumed_words+120(%rip)\n\tlea calm_stack_end-8(%rip), %rsp\n\t"
        "pushf\n\tpop resumed_flags(%rip)\n\tcld\n\tcall landed\n\tud2");

enum { OLD_FLAGS = 0x40cd5, FIXED_FLAGS = 0x202 }; // AC, OF, DF and what arithmetic sets come from the frame (FIX_EFLAGS less TF, RF)

// What came of a frame, in one letter: all registers as the frame has them, others, or a signal.
static char outcome(const uint64_t *sent)
{
    int code = fault_seen.code;
    if (fault_seen.signo != 0)
        return fault_seen.signo != SIGSEGV ? (char)('A' + fault_seen.signo) : code == SI_KERNEL ? 'k' : code == SEGV_MAPERR ? 'm' : code == SEGV_ACCERR ? 'a' : '?';
    int same = memcmp(resumed_words, sent + 6, sizeof resumed_words) == 0;
    return same && resumed_flags == ((sent[FLAGS] & OLD_FLAGS) | FIXED_FLAGS) ? '.' : '!';
}

static int is_changed(int at, size_t bytes) { return memcmp(frame + 1024 + at, fpu_image + at, bytes) != 0; }

// Of what is not the same on all CPUs and for all kinds of programs: states behind AVX and MXCSR.MM (AMD64 APM vol. 1 §4.2.2),
// which some CPUs have, XSTATE_BV's bit for expansion, which AMD's do not look at and Intel's refuse, the sizes that follow from that, reserved words that only some look at, code of 32 bits, the vsyscall
// page.
static int depends_on_the_host(const uint64_t *words)
{
    uint64_t states = get(XSTATE_BV), old;
    memcpy(&old, fpu_image + XSTATE_BV, sizeof old);
    return ((states ^ old) & (UINT64_C(1) << EXPANSION_BIT | 0x7fff8)) != 0 || (get(MXCSR) & 1 << 17) != 0 || is_changed(EXTENDED_SIZE, 4) || is_changed(XSTATE_SIZE, 4) ||
           is_changed(RESERVED + 8, 576 - RESERVED - 8) ||
           (words[SELECTORS] & 0xfffc) == 0x20 || (words[RIP] & ~UINT64_C(0xfff)) == 0xffffffffff600000;
}

static void mutate(uint64_t *words)
{
    for (uint64_t edits = next() % 8; edits-- > 0;) {
        size_t word = next() % WORDS;
        if (word >= ALTSTACK && word < ALTSTACK + 3) // where it is to be met
            continue;
        uint64_t value = next() % 2 ? hostile[next() % (sizeof hostile / sizeof hostile[0])] : next() << (next() % 64);
        if (word == 0 || word == RIP || (word >= 6 && word < 6 + 16) || word == SELECTORS)
            value = next() % 4 ? value : words[word] ^ (UINT64_C(1) << (next() % 64));
        if ((word == RIP || word == RSP) && value < 0x800000000000) // not into the program
            value |= UINT64_C(1) << 63;
        if (word == FLAGS)
            value &= ~UINT64_C(0x40100);
        if (word == WORDS - 1)
            value &= ~UINT64_C(0x4f8); // what is to be met is not blocked
        words[word] = value;
    }
    for (uint64_t edits = next() % 8; edits-- > 0;)
        frame[1024 + next() % AVX_END] ^= (unsigned char)(1 << next() % 8);
    put(MXCSR, get(MXCSR) | 0x1f80);
}

// A letter for each frame, a blank where Linux on another host may see another thing.
static void random_frames(long count)
{
    char line[65] = "";
    for (long i = 0; i < count; i++) {
        uint64_t *words = fresh(), sent[WORDS];
        words[RIP] = (uint64_t)resumed;
        mutate(words);
        memcpy(sent, words, sizeof sent);
        int differs = depends_on_the_host(words);
        try("random", (uint64_t)i, 0);
        line[i % 64] = differs ? ' ' : outcome(sent);
        line[i % 64 + 1] = 0;
        if (i % 64 == 63 || i == count - 1)
            printf("random %ld: %s\n", i / 64 * 64, line);
    }
    printf("%ld random frames\n", count);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    need(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && took_frame == 1, "a frame");
    arm();
    fresh();
    try("as it was", 0, 1);
    addresses();
    selectors();
    images();
    random_frames(argc > 2 ? strtol(argv[2], NULL, 10) : 1000);
    return 0;
}
