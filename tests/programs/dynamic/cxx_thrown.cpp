// C++ over a library's border: exceptions both ways, virtual functions,
// run-time types, iostreams, static objects.
#include "../common/check.h"
#include "thrower.h"
#include <iostream>
#include <memory>

struct Derived : Base {
    std::string name() const override { return "derived"; }
};

struct Noisy {
    const char *name;
    explicit Noisy(const char *name) : name(name) { std::cout << "made " << name << std::endl; }
    ~Noisy() { std::cout << "gone " << name << std::endl; }
};
static Noisy global("global");

static std::string caught(int what)
{
    Noisy local("local");
    try {
        throw_it(what);
    } catch (int number) {
        return "int " + std::to_string(number);
    } catch (const Error &error) {
        return std::string(error.what()) + " " + std::to_string(error.code);
    } catch (const std::exception &error) {
        return error.what();
    }
    return "nothing";
}

int main()
{
    for (int what = 0; what < 3; what++)
        std::cout << caught(what) << std::endl;
    std::cout << call_back([] { throw Error("thrown by the program", 0); }) << std::endl;
    std::unique_ptr<Base> object = std::make_unique<Derived>();
    check(object->name() == "derived" && Base().name() == "base", "virtual functions");
    check(is_derived(*object, typeid(Derived)) && dynamic_cast<Derived *>(object.get()), "run-time types");
    return check_done();
}
