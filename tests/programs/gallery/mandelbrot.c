// The Mandelbrot set in characters, with a checksum of all iteration counts so
// that two machines can be compared at a glance.
#include <stdint.h>
#include <stdio.h>

enum { WIDTH = 78, HEIGHT = 28, LIMIT = 2000 };

static int iterations(double cr, double ci)
{
    double zr = 0, zi = 0;
    int n = 0;
    while (n < LIMIT && zr * zr + zi * zi < 4.0) {
        double next = zr * zr - zi * zi + cr;
        zi = 2.0 * zr * zi + ci;
        zr = next;
        n++;
    }
    return n;
}

int main(void)
{
    static const char shades[] = " .:-=+*%@";
    uint64_t checksum = 0;
    for (int y = 0; y < HEIGHT; y++) {
        char line[WIDTH + 2];
        for (int x = 0; x < WIDTH; x++) {
            int n = iterations(-2.15 + 2.85 * x / (WIDTH - 1), 1.15 - 2.3 * y / (HEIGHT - 1));
            int shade = n == LIMIT ? 8 : n < 3 ? 0 : n < 5 ? 1 : n < 7 ? 2 : n < 10 ? 3 : n < 16 ? 4 : n < 32 ? 5 : n < 96 ? 6 : 7;
            line[x] = shades[shade];
            checksum = checksum * 31 + (uint64_t)n;
        }
        line[WIDTH] = '\n';
        line[WIDTH + 1] = 0;
        fputs(line, stdout);
    }
    printf("mandelbrot: %d x %d points, checksum %016llx\n", WIDTH, HEIGHT, (unsigned long long)checksum);
    return 0;
}
