// AVX2 and FMA instructions give exact results: integer and floating point
// lanes, gathers, permutations, fused multiply-add, against scalar code.
#include "../common/check.h"
#include <immintrin.h>
#include <math.h>

enum { N = 4096 };
static double a[N], b[N], c[N], fused[N];
static int32_t p[N], q[N], r[N];

__attribute__((target("avx2,fma"))) static void vectors(void)
{
    for (int i = 0; i < N; i += 4) {
        __m256d x = _mm256_loadu_pd(a + i), y = _mm256_loadu_pd(b + i);
        _mm256_storeu_pd(c + i, _mm256_div_pd(_mm256_sqrt_pd(x), _mm256_add_pd(y, _mm256_set1_pd(2))));
        _mm256_storeu_pd(fused + i, _mm256_fmadd_pd(x, y, _mm256_set1_pd(-0.1)));
    }
    for (int i = 0; i < N; i += 8) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(p + i));
        __m256i at = _mm256_and_si256(x, _mm256_set1_epi32(N - 1));
        __m256i y = _mm256_i32gather_epi32(q, at, 4);
        __m256i z = _mm256_permutevar8x32_epi32(_mm256_mullo_epi32(x, y), _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
        _mm256_storeu_si256((__m256i *)(r + i), _mm256_srav_epi32(z, _mm256_set1_epi32(3)));
    }
}

__attribute__((target("avx2"))) static unsigned bytes(const char *text)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)text);
    v = _mm256_shuffle_epi8(v, _mm256_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6,
                                               7, 8, 9, 10, 11, 12, 13, 14, 15));
    return (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('e')));
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("this CPU has no AVX2 and FMA");
        return 0;
    }
    for (int i = 0; i < N; i++) {
        a[i] = (double)(seq_word((uint64_t)i) >> 11) * 0x1p-53;
        b[i] = (double)(seq_word((uint64_t)i + N) >> 11) * 0x1p-53;
        p[i] = (int32_t)seq_word((uint64_t)i * 3);
        q[i] = (int32_t)seq_word((uint64_t)i * 5);
    }
    vectors();
    int quotients = 0, products = 0, integers = 0;
    for (int i = 0; i < N; i++) {
        volatile double root = sqrt(a[i]), sum = b[i] + 2;
        quotients += c[i] == root / sum;
        products += fused[i] == fma(a[i], b[i], -0.1);
        int from = i / 8 * 8 + 7 - i % 8;
        integers += r[i] == (int32_t)((uint32_t)p[from] * (uint32_t)q[p[from] & (N - 1)]) >> 3;
    }
    check(quotients == N, "4096 roots and quotients");
    check(products == N, "4096 fused products, rounded once");
    check(integers == N, "4096 gathered and permuted integers");
    struct sums sums = {0};
    sums_add(&sums, c, N);
    sums_add(&sums, fused, N);
    sums_print(&sums, "results");
    printf("letters %08x\n", bytes("the quick brown fox jumps over t"));
    return check_done();
}
