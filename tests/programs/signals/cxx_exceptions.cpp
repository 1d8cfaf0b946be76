// C++ exceptions: through many frames with destructors in order, rethrown,
// nested, out of a fault's handler; the last one is not caught: std::terminate.
#include "../common/check.h"
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

static int alive;
struct Counted {
    Counted() { alive++; }
    ~Counted() { alive--; }
};

static int deep(int n)
{
    Counted c;
    if (n == 0)
        throw std::runtime_error("from the bottom");
    return deep(n - 1) + 1;
}

static std::string story(const std::exception &e)
{
    try {
        std::rethrow_if_nested(e);
    } catch (const std::exception &inner) {
        return std::string(e.what()) + " <- " + story(inner);
    }
    return e.what();
}

static void poke(volatile int *at) { *at = 1; }
// A pointer to it, or the compiler would conclude that the call cannot throw.
static void (*volatile poke_through)(volatile int *) = poke;
static void throw_from_handler(int) { throw std::domain_error("a null pointer"); }

static void end()
{
    std::cout << "terminate: " << alive << " objects alive" << std::endl;
    std::abort();
}

int main()
{
    int caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            deep(i % 100);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    check(caught == 1000 && alive == 0, "1000 exceptions, every destructor ran");
    try {
        try {
            deep(3);
        } catch (...) {
            std::throw_with_nested(std::logic_error("in the middle"));
        }
    } catch (const std::exception &e) {
        check(story(e) == "in the middle <- from the bottom", "nested: %s", story(e).c_str());
    }
    std::string text;
    try {
        (void)std::string("abc").at(5);
    } catch (const std::out_of_range &) {
        text = "out_of_range";
    }
    check(text == "out_of_range", "thrown by the library");
    struct sigaction action = {};
    action.sa_handler = throw_from_handler;
    action.sa_flags = SA_NODEFER;
    need(sigaction(SIGSEGV, &action, nullptr) == 0, "sigaction");
    caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            Counted c;
            poke_through(reinterpret_cast<int *>(8));
        } catch (const std::domain_error &) {
            caught++;
        }
    }
    check(caught == 100 && alive == 0, "100 faults turned into exceptions by their handler");
    check_done();
    std::set_terminate(end);
    throw 42;
}
