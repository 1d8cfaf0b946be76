// Divides by zero with that exception unmasked: SIGFPE. Under QEMU's TCG, which
// raises no SSE exceptions, the program goes on to its end.
#include "../common/check.h"
#include <fenv.h>

int main(void)
{
    volatile double zero = 0;
    need(feenableexcept(FE_DIVBYZERO) >= 0, "feenableexcept");
    zero = 1 / zero;
    return 0;
}
