// Throws, catches and derives across the border between program and library.
#include "../thrower.h"

Base::~Base() = default;
std::string Base::name() const { return "base"; }

void throw_it(int what)
{
    switch (what) {
    case 0: throw 42;
    case 1: throw std::out_of_range("out of range");
    default: throw Error("thrown by the library", what);
    }
}

std::string call_back(const std::function<void()> &function)
{
    try {
        function();
    } catch (const Error &error) {
        return std::string("caught by the library: ") + error.what();
    }
    return "nothing thrown";
}

bool is_derived(const Base &object, const std::type_info &type) { return typeid(object) == type; }
