// C++ containers that make memory calls: a vector grown to 32 MB, a map, a
// deque, strings, aligned new, bad_alloc. Sums are printed.
#include "../common/check.h"
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

struct alignas(4096) Page {
    char bytes[4096];
};

int main()
{
    std::vector<std::uint64_t> v;
    for (std::uint64_t i = 0; i < (4u << 20); i++)
        v.push_back(i * i);
    check(v.size() == 4u << 20, "a vector grown to 32 MB");
    std::printf("     sum %llx\n", static_cast<unsigned long long>(std::accumulate(v.begin(), v.end(), std::uint64_t{0})));
    v.resize(1000);
    v.shrink_to_fit();
    check(v.capacity() < 4096 && v[999] == 999 * 999, "shrunk");

    std::map<int, std::string> map;
    for (int i = 0; i < 50000; i++)
        map[i * 7919 % 50021] = std::string(static_cast<std::size_t>(i % 60), static_cast<char>('a' + i % 26));
    std::size_t letters = 0;
    int last = -1, ordered = 1;
    for (const auto &[key, text] : map) {
        ordered &= key > last;
        last = key;
        letters += text.size();
    }
    check(ordered, "a map of %zu strings in order, %zu letters", map.size(), letters);
    std::unordered_map<std::string, int> counts;
    for (const auto &entry : map)
        counts[entry.second]++;
    check(counts.size() > 60, "%zu distinct strings", counts.size());

    std::deque<std::unique_ptr<int>> deque;
    for (int i = 0; i < 100000; i++) {
        deque.push_back(std::make_unique<int>(i));
        if (i % 3 == 0)
            deque.pop_front();
    }
    check(deque.size() == 66666 && *deque.front() == 33334, "a deque of owned integers");

    std::vector<std::unique_ptr<Page>> pages;
    bool aligned = true;
    for (int i = 0; i < 100; i++) {
        pages.emplace_back(new Page);
        aligned &= reinterpret_cast<std::uintptr_t>(pages.back().get()) % 4096 == 0;
    }
    check(aligned, "100 objects aligned to a page");
    bool refused = false;
    volatile std::size_t enormous = std::size_t{1} << 60;
    try {
        ::operator delete(::operator new(enormous));
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    check(refused, "2^60 bytes give bad_alloc");
    return check_done();
}
