// C++ file streams and std::filesystem: text and binary streams, seeks, trees
// that are made, walked in order, copied and removed, errors as exceptions.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;
static int failures;

static void check(bool ok, const std::string &text)
{
    failures += !ok;
    std::cout << (ok ? "ok   " : "FAIL ") << text << std::endl;
}

static void streams()
{
    std::ofstream out("text");
    for (int i = 0; i < 500; i++)
        out << std::setw(6) << i << ' ' << std::hex << i * 37 << std::dec << ' ' << std::setprecision(4) << i / 7.0
            << '\n';
    out.close();
    check(out.good(), "500 lines written");

    std::ifstream in("text");
    std::string line, last;
    int lines = 0;
    while (std::getline(in, line)) {
        last = line;
        lines++;
    }
    check(lines == 500 && in.eof(), "500 lines read");
    std::cout << "     the last is [" << last << "]\n";

    std::vector<std::uint32_t> numbers(10000);
    for (std::size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<std::uint32_t>(i * 2654435761u);
    std::fstream binary("binary", std::ios::in | std::ios::out | std::ios::binary | std::ios::trunc);
    binary.write(reinterpret_cast<const char *>(numbers.data()), static_cast<std::streamsize>(numbers.size() * 4));
    std::uint32_t one = 0;
    binary.seekg(4 * 1234);
    binary.read(reinterpret_cast<char *>(&one), 4);
    check(one == numbers[1234], "word 1234 of a binary file");
    binary.seekp(-4, std::ios::end);
    binary.write("last", 4);
    check(static_cast<long>(binary.tellp()) == 40000, "tellp is 40000 after the last word was replaced");
}

static void trees()
{
    fs::create_directories("tree/left/leaf");
    fs::create_directories("tree/right");
    std::ofstream("tree/left/file") << "left";
    std::ofstream("tree/right/file") << "right side";
    fs::create_symlink("left/file", "tree/link");
    fs::copy("tree", "copy", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    std::vector<std::string> names;
    for (const auto &entry : fs::recursive_directory_iterator("copy"))
        names.push_back(entry.path().string() + (entry.is_symlink()      ? "@"
                                                 : entry.is_directory() ? "/"
                                                                        : " " + std::to_string(entry.file_size())));
    std::sort(names.begin(), names.end());
    for (const auto &name : names)
        std::cout << "     " << name << '\n';
    check(fs::equivalent("tree/link", "tree/left/file"), "a link and its target are equivalent");
    check(fs::relative(fs::current_path() / "tree/left", "tree/right") == "../left", "a relative path");
    fs::rename("copy/left", "copy/renamed");
    check(fs::exists("copy/renamed/leaf") && !fs::exists("copy/left"), "renamed");
    fs::permissions("copy/renamed/file", fs::perms::owner_read);
    check((fs::status("copy/renamed/file").permissions() & fs::perms::mask) == fs::perms::owner_read, "permissions");
    check(fs::remove_all("copy") == 7, "remove_all removed 7");
    std::error_code error;
    (void)fs::file_size("absent", error);
    check(error == std::errc::no_such_file_or_directory, "an error code");
    try {
        fs::create_directory("absent/below");
        check(false, "an exception");
    } catch (const fs::filesystem_error &e) {
        check(e.code() == std::errc::no_such_file_or_directory, "an exception");
    }
}

int main()
{
    streams();
    trees();
    return failures != 0;
}
