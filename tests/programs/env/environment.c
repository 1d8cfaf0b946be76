// setenv, putenv, unsetenv, clearenv: the C library's environment grows by a
// thousand variables, shrinks, and is emptied.
#include "../common/check.h"

extern char **environ;

static int count(void)
{
    int n = 0;
    for (char **e = environ; e && *e; e++)
        n++;
    return n;
}

int main(void)
{
    static char put[] = "PUT_HERE=first";
    char name[32], value[64];
    check(setenv("A_NEW_ONE", "value", 1) == 0 && strcmp(getenv("A_NEW_ONE"), "value") == 0, "setenv");
    check(setenv("A_NEW_ONE", "other", 0) == 0 && strcmp(getenv("A_NEW_ONE"), "value") == 0, "without overwriting");
    check(setenv("A_NEW_ONE", "", 1) == 0 && *getenv("A_NEW_ONE") == 0, "to the empty value");
    check(unsetenv("A_NEW_ONE") == 0 && getenv("A_NEW_ONE") == NULL, "unsetenv");
    check(putenv(put) == 0 && getenv("PUT_HERE") == put + 9, "putenv keeps the string itself");
    put[9] = 'F';
    check(strcmp(getenv("PUT_HERE"), "First") == 0, "so a change of it is seen");
    int before = count();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "VARIABLE_%d", i);
        snprintf(value, sizeof value, "%0*d", i % 50, i);
        need(setenv(name, value, 1) == 0, "setenv");
    }
    check(count() == before + 1000, "a thousand more");
    check(strcmp(getenv("VARIABLE_749"), "0000000000000000000000000000000000000000000000749") == 0, "one of them");
    for (int i = 0; i < 1000; i += 2) {
        snprintf(name, sizeof name, "VARIABLE_%d", i);
        unsetenv(name);
    }
    check(count() == before + 500 && !getenv("VARIABLE_500") && getenv("VARIABLE_501"), "every second one removed");
    check_fails(setenv("WITH=SIGN", "x", 1), EINVAL, "a name with =");
    check_fails(setenv("", "x", 1), EINVAL, "an empty name");
    check(clearenv() == 0 && count() == 0 && getenv("PATH") == NULL, "clearenv");
    check(setenv("AFTER", "all", 1) == 0 && count() == 1, "and a first one again");
    return check_done();
}
