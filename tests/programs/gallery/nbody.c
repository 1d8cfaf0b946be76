// Gravity: the sun and the four giant planets over 120 years in leapfrog steps
// of a day. Draws their paths from above and checks that energy is kept.
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BODIES = 5, DAYS = 120 * 365, COLUMNS = 65, ROWS = 33 };

struct body {
    char letter;
    double mass;     // of the sun
    double distance; // from the sun, in astronomical units
    double p[2], v[2];
};

static struct body bodies[BODIES] = {
    {'O', 1.0, 0, {0}, {0}},
    {'J', 9.5458e-4, 5.2026, {0}, {0}},
    {'S', 2.8581e-4, 9.5549, {0}, {0}},
    {'U', 4.3658e-5, 19.2184, {0}, {0}},
    {'N', 5.1503e-5, 30.1104, {0}, {0}},
};
// Gauss's constant squared: units of AU, days and solar masses.
static const double gravity = 0.01720209895 * 0.01720209895;

static void accelerate(double days)
{
    for (int i = 0; i < BODIES; i++) {
        for (int j = 0; j < BODIES; j++) {
            if (i == j)
                continue;
            double dx = bodies[j].p[0] - bodies[i].p[0], dy = bodies[j].p[1] - bodies[i].p[1];
            double r = sqrt(dx * dx + dy * dy), pull = days * gravity * bodies[j].mass / (r * r * r);
            bodies[i].v[0] += pull * dx;
            bodies[i].v[1] += pull * dy;
        }
    }
}

static double energy(void)
{
    double sum = 0;
    for (int i = 0; i < BODIES; i++) {
        const struct body *b = &bodies[i];
        sum += 0.5 * b->mass * (b->v[0] * b->v[0] + b->v[1] * b->v[1]);
        for (int j = i + 1; j < BODIES; j++)
            sum -= gravity * b->mass * bodies[j].mass / hypot(b->p[0] - bodies[j].p[0], b->p[1] - bodies[j].p[1]);
    }
    return sum;
}

int main(void)
{
    static char picture[ROWS][COLUMNS + 1];
    memset(picture, ' ', sizeof picture);
    for (int i = 1; i < BODIES; i++) {
        // Circular orbits that start in different directions; the sun takes
        // the opposite momentum, so that the whole stays in place.
        double angle = 1.3 * i, speed = sqrt(gravity * (1.0 + bodies[i].mass) / bodies[i].distance);
        bodies[i].p[0] = bodies[i].distance * cos(angle);
        bodies[i].p[1] = bodies[i].distance * sin(angle);
        bodies[i].v[0] = -speed * sin(angle);
        bodies[i].v[1] = speed * cos(angle);
        bodies[0].v[0] -= bodies[i].mass * bodies[i].v[0];
        bodies[0].v[1] -= bodies[i].mass * bodies[i].v[1];
    }
    double before = energy();
    for (int day = 0; day < DAYS; day++) {
        accelerate(0.5);
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < 2; k++)
                bodies[i].p[k] += bodies[i].v[k];
        accelerate(0.5);
        for (int i = 0; i < BODIES && day % 30 == 0; i++) {
            int x = (int)lround((bodies[i].p[0] / 33.0 + 1.0) * (COLUMNS - 1) / 2);
            int y = (int)lround((1.0 - bodies[i].p[1] / 33.0) * (ROWS - 1) / 2);
            if (x >= 0 && x < COLUMNS && y >= 0 && y < ROWS)
                picture[y][x] = bodies[i].letter;
        }
    }
    for (int y = 0; y < ROWS; y++) {
        int end = COLUMNS;
        while (end > 0 && picture[y][end - 1] == ' ')
            end--;
        printf("%.*s\n", end, picture[y]);
    }
    double drift = fabs(energy() / before - 1.0);
    printf("nbody: %d bodies, %d days, energy kept to %s\n", BODIES, DAYS, drift < 1e-6 ? "one millionth" : "NOT ENOUGH");
    return drift < 1e-6 ? 0 : 1;
}
