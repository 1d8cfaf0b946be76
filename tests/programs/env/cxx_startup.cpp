// C++ start and end: static objects made in order and destroyed in reverse,
// function-local statics, atexit in between, iostream flushed at the end.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <locale>
#include <string>

struct Traced {
    std::string name;
    explicit Traced(const char *n) : name(n) { std::cout << "made " << name << '\n'; }
    ~Traced() { std::cout << "destroyed " << name << '\n'; }
};

static Traced first("first");
static thread_local Traced in_thread("thread-local");
static Traced second("second");

static Traced &local()
{
    static Traced once("function-local");
    return once;
}

int main(int argc, char **)
{
    std::cout << "main with " << argc << " argument\n";
    std::atexit([] { std::cout << "atexit\n"; });
    std::cout << local().name << ' ' << local().name << ' ' << in_thread.name << '\n';
    std::cout << std::locale().name() << ' ' << std::boolalpha << true << ' ' << 1234567.5 << '\n';
    try {
        std::locale named("no_SUCH.locale");
    } catch (const std::exception &) {
        std::cout << "an unknown locale throws\n";
    }
    std::cerr << "to stderr\n";
    std::cout << "not flushed by main";
    return 0;
}
