// Heat in a square plate whose top edge is hot and whose sides are cold: sweeps
// of Gauss-Seidel with over-relaxation until nothing changes any more, drawn as
// bands of temperature.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 129, DRAWN_ROWS = 16, DRAWN_COLUMNS = 64 };

static double plate[N][N];

// One sweep; returns the largest change.
static double sweep(double over_relaxation)
{
    double largest = 0;
    for (int y = 1; y < N - 1; y++) {
        for (int x = 1; x < N - 1; x++) {
            double mean = 0.25 * (plate[y - 1][x] + plate[y + 1][x] + plate[y][x - 1] + plate[y][x + 1]);
            double change = over_relaxation * (mean - plate[y][x]);
            plate[y][x] += change;
            largest = fmax(largest, fabs(change));
        }
    }
    return largest;
}

int main(void)
{
    int sweeps = 0;
    for (int x = 0; x < N; x++)
        plate[0][x] = 100.0;
    // The best factor for a square of this size: 2 / (1 + sin(pi / (N - 1))).
    const double factor = 2.0 / (1.0 + sin(3.14159265358979323846 / (N - 1)));
    while (sweep(factor) > 1e-9)
        sweeps++;
    for (int row = 0; row < DRAWN_ROWS; row++) {
        for (int column = 0; column < DRAWN_COLUMNS; column++) {
            double t = plate[row * (N - 1) / (DRAWN_ROWS - 1)][column * (N - 1) / (DRAWN_COLUMNS - 1)];
            putchar(" .,:;+*o%#@"[(int)(t / 10.0001)]);
        }
        putchar('\n');
    }
    // By symmetry the centre of a square with one hot side has a quarter of it.
    double centre = plate[N / 2][N / 2];
    printf("heat: %d sweeps of a %d x %d plate, centre %.6f\n", sweeps, N, N, centre);
    return fabs(centre - 25.0) < 1e-4 ? 0 : 1;
}
