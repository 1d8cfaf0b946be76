// iostream over large text: lines with numbers written, read back by getline
// and by operator>>, with and without sync_with_stdio. Argument: size.
#include "../common/check.h"
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

int main(int argc, char **argv)
{
    std::ios::sync_with_stdio(false);
    // A sixteenth of the size: formatting is slow under emulation.
    std::size_t size = size_arg(argc, argv, 1, 4 << 20) / 16, written = 0, lines = 0;
    std::ofstream out("text");
    std::uint64_t expected = 0;
    for (; written < size; lines++) {
        std::uint64_t number = seq_word(lines) >> 40;
        expected += number;
        std::ostringstream text;
        text << "line " << lines << " holds " << number << '\n';
        out << text.str();
        written += text.str().size();
    }
    out.close();

    std::ifstream in("text");
    std::string line;
    std::size_t bytes = 0, seen = 0;
    while (std::getline(in, line)) {
        bytes += line.size() + 1;
        seen++;
    }
    std::cout << seen << " lines, " << bytes << " bytes\n";
    bool ok = seen == lines && bytes == written;

    in.clear();
    in.seekg(0);
    std::string word, holds;
    std::uint64_t number, sum = 0;
    std::size_t index;
    while (in >> word >> index >> holds >> number)
        sum += number;
    std::cout << "sum " << sum << (sum == expected ? " as written" : " WRONG") << std::endl;
    in.close();
    std::remove("text");
    return ok && sum == expected ? 0 : 1;
}
