// C++ numerics: complex numbers, valarray, accumulate and inner products,
// Gaussian elimination, a random engine's known sequence; exact bits.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <numeric>
#include <random>
#include <valarray>
#include <vector>

int main()
{
    std::mt19937_64 engine; // the standard fixes its 10,000th value
    engine.discard(9999);
    std::printf("mersenne twister %llu\n", static_cast<unsigned long long>(engine()));

    const int n = 120;
    std::vector<std::vector<double>> m(n, std::vector<double>(n + 1));
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= n; j++)
            m[i][j] = static_cast<double>(engine() >> 11) * 0x1p-53 + (i == j ? n : 0);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            if (i != k) {
                const double f = m[i][k] / m[k][k];
                for (int j = k; j <= n; j++)
                    m[i][j] -= f * m[k][j];
            }
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += m[i][n] / m[i][i];
    std::printf("linear system    %a\n", sum);

    std::complex<double> z(0.1, 0.2), product(1, 0);
    for (int i = 0; i < 1000; i++) {
        product *= std::complex<double>(1.0, i * 1e-4);
        z = (z + 1.0) / (z - std::complex<double>(0, 3));
    }
    std::printf("complex          %a %a %a %a\n", z.real(), z.imag(), product.real(), product.imag());

    std::valarray<double> v(1000), w(1000);
    for (std::size_t i = 0; i < v.size(); i++) {
        v[i] = 1.0 / static_cast<double>(i + 1);
        w[i] = std::sqrt(static_cast<double>(i));
    }
    std::valarray<double> u = v * w - 0.5 * v;
    std::printf("valarray         %a %a %a\n", u.sum(), u.max(), u.cshift(7)[0]);
    std::vector<double> sorted(std::begin(u), std::end(u));
    std::sort(sorted.begin(), sorted.end());
    std::printf("sorted           %a %a\n", sorted[500], std::accumulate(sorted.begin(), sorted.end(), 0.0));
    std::printf("inner product    %a\n", std::inner_product(std::begin(v), std::end(v), std::begin(w), 0.0));
    std::printf("hypot, fma       %a %a\n", std::hypot(3.0, 4.0), std::fma(0.1, 10.0, -1.0));
    std::printf("remainder        %a %a\n", std::remainder(10.0, 3.3), std::nextafter(1.0, 2.0));
    return 0;
}
