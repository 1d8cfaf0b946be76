#include "compute.h"

#include <string.h>

static uint64_t next_random(uint64_t *state) /* Knuth's MMIX */
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return *state >> 33;
}

double cube_fill(const struct cube *c, int rank)
{
    double sum = 0;
    memset(c->x, 0, c->plane * (size_t)(c->n + 2) * sizeof *c->x);
    for (int k = 1; k <= c->n; k++)
        for (int j = 1; j <= c->n; j++)
            for (int i = 1; i <= c->n; i++) {
                size_t at = (size_t)k * c->plane + (size_t)(j * (c->n + 2) + i);
                c->r[at] = c->p[at] = 1.0 + (i * 7 + j * 5 + k * 3 + rank) % 11;
                sum += c->r[at] * c->r[at];
            }
    return sum;
}

double cube_apply(const struct cube *c)
{
    double sum = 0;
    ptrdiff_t line = c->n + 2, plane = (ptrdiff_t)c->plane;
    for (int k = 1; k <= c->n; k++)
        for (int j = 1; j <= c->n; j++) {
            const double *p = c->p + k * plane + j * line;
            double *q = c->q + k * plane + j * line;
            for (int i = 1; i <= c->n; i++) {
                q[i] = 6.5 * p[i] - p[i - 1] - p[i + 1] - p[i - line] - p[i + line] - p[i - plane] -
                       p[i + plane];
                sum += p[i] * q[i];
            }
        }
    return sum;
}

double cube_advance(const struct cube *c, double alpha)
{
    double sum = 0;
    for (size_t at = c->plane; at < c->plane * (size_t)(c->n + 1); at++) {
        c->x[at] += alpha * c->p[at];
        c->r[at] -= alpha * c->q[at];
        sum += c->r[at] * c->r[at];
    }
    return sum;
}

void cube_turn(const struct cube *c, double beta)
{
    for (size_t at = c->plane; at < c->plane * (size_t)(c->n + 1); at++)
        c->p[at] = c->r[at] + beta * c->p[at];
}

void values_fill(double *values, int n, int first)
{
    for (int i = 0; i < n; i++)
        values[i] = first + i;
}

void values_add_one(double *values, int n)
{
    for (int i = 0; i < n; i++)
        values[i] += 1;
}

void line_transform(double complex *line, int n, const double complex *roots, bool back)
{
    for (int i = 1, j = 0; i < n; i++) { /* in the order of reversed bits */
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex other = line[i];
            line[i] = line[j];
            line[j] = other;
        }
    }
    for (int half = 1; half < n; half *= 2)
        for (int first = 0; first < n; first += 2 * half)
            for (int i = 0; i < half; i++) {
                double complex root = roots[i * (n / 2 / half)];
                double complex odd = line[first + half + i] * (back ? conj(root) : root);
                line[first + half + i] = line[first + i] - odd;
                line[first + i] += odd;
            }
}

void lines_to_blocks(const double complex *lines, int count, int n, double complex *blocks)
{
    for (int column = 0; column < n; column++)
        for (int line = 0; line < count; line++)
            blocks[column * count + line] = lines[line * n + column];
}

void blocks_to_lines(const double complex *blocks, int count, int n, double complex *lines)
{
    for (int from = 0; from < n / count; from++)
        for (int line = 0; line < count; line++)
            memcpy(lines + line * n + from * count, blocks + (from * count + line) * count,
                   (size_t)count * sizeof *lines);
}

void numbers_divide(double complex *numbers, size_t count, double by)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] /= by;
}

void keys_draw(int32_t *keys, int n, int width, uint64_t *random, int *counts)
{
    for (int i = 0; i < n; i++) {
        keys[i] = (int32_t)(next_random(random) % KEYS);
        counts[keys[i] / width]++;
    }
}

void keys_deal(const int32_t *keys, int n, int width, int *places, int32_t *dealt)
{
    for (int i = 0; i < n; i++)
        dealt[places[keys[i] / width]++] = keys[i];
}

void keys_sort(int32_t *keys, int n, int first, int width)
{
    static int32_t often[KEYS];
    memset(often, 0, (size_t)width * sizeof *often);
    for (int i = 0; i < n; i++)
        often[keys[i] - first]++;
    for (int key = 0, i = 0; key < width; key++)
        for (int32_t times = often[key]; times > 0; times--)
            keys[i++] = first + key;
}

int points_inside(int n, uint64_t *random)
{
    int inside = 0;
    for (int i = 0; i < n; i++) {
        double x = (double)next_random(random) / 0x1p31, y = (double)next_random(random) / 0x1p31;
        inside += x * x + y * y < 1;
    }
    return inside;
}
