#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <typeinfo>

struct Error : std::runtime_error {
    Error(const char *text, int code) : runtime_error(text), code(code) {}
    int code;
};

struct Base {
    virtual ~Base();
    virtual std::string name() const;
};

void throw_it(int what);
std::string call_back(const std::function<void()> &function);
bool is_derived(const Base &object, const std::type_info &type);
