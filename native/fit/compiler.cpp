// SPDX-License-Identifier: Apache-2.0
// Stands in for riscv-tt-elf-g++, so that an unmodified ttnn builds its kernels for chips that exist on paper only.
//
// A compile step leaves an empty file. A link step leaves a RISC-V executable that tt-metal's loader accepts: it lies
// where the linker script (-T) puts .text and .data, with the firmware's symbols (--just-symbols) where the script
// names them. Its code is a jump over no-operations; how many is decided by the kernel's name, so that kernels differ
// in size and each has the same size in every run. With TTMEM_SMALL_KERNELS all are as small as possible: sizes that
// are not real must not fill the kernel ring.
//
//   file: header | program headers | .text | .data | .rela.text | .symtab | .strtab | .shstrtab | section headers
//   code: _start: j kernel_main ; kernel_main: nop ... nop, ret
//
// It is called as <root>/runtime/sfpi/compiler/bin/riscv-tt-elf-g++. --version says what <root>/tt_metal/sfpi-version
// says, because ttnn looks its prebuilt firmware up by the version of the compiler. That firmware is in
// <root>/tt_metal/pre-compiled: a ttnn that has none for a mock device and wants to build it gets what it has for other
// devices.

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Words = std::vector<uint32_t>;
using Symbols = std::map<std::string, uint32_t>;

constexpr uint32_t NOP = 0x00000013;
constexpr uint32_t RET = 0x00008067;
constexpr uint32_t JUMP_TO_NEXT = 0x0040006f;
constexpr uint32_t TEXT_WORDS_MIN = 256, TEXT_WORDS_SPAN = 1536;  // 1 to 7 KiB; the smallest core has room for 16
constexpr uint32_t DATA_WORDS_SPAN = 33;  // up to 128 bytes; the smallest local memory has 2 KiB

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "stand-in for the kernel compiler: %s\n", what.c_str());
    std::exit(1);
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        fail("cannot read " + path);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!(file << content).flush()) {
        fail("cannot write " + path);
    }
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

struct Command {
    std::string output, dependencies, script, firmware;
    std::vector<std::string> folders;  // where the script's INCLUDEs are looked for
    bool compiles = false, version = false;
};

Command parse(int count, char** arguments) {
    Command command;
    for (int i = 1; i < count; i++) {
        const std::string argument = arguments[i];
        const std::string next = i + 1 < count ? arguments[i + 1] : "";
        if (argument == "--version") {
            command.version = true;
        } else if (argument == "-o") {
            command.output = next;
        } else if (argument == "-MF") {
            command.dependencies = next;
        } else if (argument == "-c" || argument == "c++-header") {
            command.compiles = true;
        } else if (starts_with(argument, "-T")) {
            command.script = argument.size() > 2 ? argument.substr(2) : next;
        } else if (starts_with(argument, "-L")) {
            command.folders.push_back(argument.size() > 2 ? argument.substr(2) : next);
        } else if (starts_with(argument, "-Wl,--just-symbols=")) {
            command.firmware = argument.substr(std::strlen("-Wl,--just-symbols="));
        }
    }
    return command;
}

Symbols symbols_of(const std::string& path) {
    const std::string file = read(path);
    const auto at = [&](auto& value, size_t offset) {
        if (offset > file.size() || sizeof value > file.size() - offset) {
            fail(path + " is cut short");
        }
        std::memcpy(&value, file.data() + offset, sizeof value);
    };
    Elf32_Ehdr header;
    at(header, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS32) {
        fail(path + " is no 32-bit ELF file");
    }
    Symbols symbols;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf32_Shdr table, names;
        at(table, header.e_shoff + i * sizeof table);
        if (table.sh_type != SHT_SYMTAB) {
            continue;
        }
        at(names, header.e_shoff + table.sh_link * sizeof names);
        for (uint32_t offset = 0; offset < table.sh_size; offset += sizeof(Elf32_Sym)) {
            Elf32_Sym symbol;
            at(symbol, table.sh_offset + offset);
            char last;
            at(last, names.sh_offset + symbol.st_name);
            symbols[file.c_str() + names.sh_offset + symbol.st_name] = symbol.st_value;
        }
    }
    return symbols;
}

// As much of the linker's language as the kernels' scripts use to say where a section begins: a number, a symbol, or a
// memory region's origin, directly or by an alias.
class Script {
public:
    struct Place {
        uint32_t address = 0;
        bool packed = false;  // AT(...): loaded right behind the section before it
    };

    Script(const Command& command) : path_(command.script), folders_(command.folders) {
        if (!command.firmware.empty()) {
            symbols_ = symbols_of(command.firmware);
        }
        read_lines(read(path_));
    }

    Place text() const { return place(".text"); }
    Place data() const { return place(".data"); }

private:
    void read_lines(const std::string& content) {
        std::istringstream lines(content);
        std::string section;
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string first, second, third;
            words >> first >> second >> third;
            if (first == "INCLUDE") {
                read_lines(included(second));
            } else if (starts_with(first, "REGION_ALIAS(")) {
                const auto quote = first.find('"') + 1;
                alias_[first.substr(quote, first.rfind('"') - quote)] = second.substr(0, second.find(')'));
            } else if (second == ":" && third == "ORIGIN") {
                origin_[first] = number(line.substr(line.find('=') + 1));
            } else if (second == "=" && starts_with(third, "ORIGIN(")) {
                begins_[first] = third.substr(7, third.find(')') - 7);
            } else if (first == ".text" || first == ".data") {
                section = first;
                if (second != ":") {
                    address_[section] = second;
                }
                packed_[section] = line.find(" AT(") != std::string::npos;
            } else if (first == "}") {
                if (second == ">" && !section.empty() && address_.count(section) == 0) {
                    region_[section] = third;
                }
                section.clear();
            }
        }
    }

    std::string included(std::string name) const {
        name = name.substr(1, name.rfind('"') - 1);
        for (const auto& folder : folders_) {
            if (std::ifstream(folder + "/" + name)) {
                return read(folder + "/" + name);
            }
        }
        fail(path_ + " includes " + name + ", which is in none of the -L folders");
    }

    uint32_t number(const std::string& text) const {
        return static_cast<uint32_t>(std::strtoull(text.c_str(), nullptr, 0));
    }

    uint32_t begin_of(std::string region) const {
        if (const auto alias = alias_.find(region); alias != alias_.end()) {
            region = alias->second;
        }
        if (const auto origin = origin_.find(region); origin != origin_.end()) {
            return origin->second;
        }
        fail(path_ + " does not define the memory region " + region);
    }

    Place place(const std::string& section) const {
        Place place;
        if (const auto packed = packed_.find(section); packed != packed_.end()) {
            place.packed = packed->second;
        }
        if (const auto region = region_.find(section); region != region_.end()) {
            place.address = begin_of(region->second);
            return place;
        }
        const auto found = address_.find(section);
        if (found == address_.end()) {
            fail(path_ + " does not say where " + section + " is");
        }
        const std::string& text = found->second;
        if (std::isdigit(static_cast<unsigned char>(text[0]))) {
            place.address = number(text);
        } else if (const auto region = begins_.find(text); region != begins_.end()) {
            place.address = begin_of(region->second);
        } else if (const auto symbol = symbols_.find(text); symbol != symbols_.end()) {
            place.address = symbol->second;
        } else {
            fail(path_ + " puts " + section + " at " + text +
                 ", which the stand-in cannot work out; it links kernels " +
                 "only, so ttnn needs prebuilt firmware for the version it prints");
        }
        return place;
    }

    std::string path_;
    std::vector<std::string> folders_;
    Symbols symbols_;
    std::map<std::string, std::string> alias_, begins_, address_, region_;
    std::map<std::string, bool> packed_;
    std::map<std::string, uint32_t> origin_;
};

// The root of ttnn, by the path that this program was called by; it may be a link, which is not followed.
std::filesystem::path root_of(const char* called_as) {
    std::filesystem::path path = called_as;
    for (int folders = 0; folders < 5; folders++) {
        path = path.parent_path();
    }
    return path;
}

// Its compiler's version, from lines such as sfpi_version='7.89.0' and sfpi_build=1050.
std::string version_of(const std::filesystem::path& root) {
    std::istringstream lines(read((root / "tt_metal" / "sfpi-version").string()));
    std::string version, build;
    for (std::string line; std::getline(lines, line);) {
        line.erase(std::remove(line.begin(), line.end(), '\''), line.end());
        if (starts_with(line, "sfpi_version=")) {
            version = line.substr(line.find('=') + 1);
        } else if (starts_with(line, "sfpi_build=")) {
            build = "[" + line.substr(line.find('=') + 1) + "]";
        }
    }
    return version + build;
}

// The prebuilt firmware for the core of <cache>/<build>/firmware/<core>/<core>.<number of the run>.elf, or nothing.
std::string prebuilt(const Command& command, const std::filesystem::path& firmware) {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path(command.output).parent_path();
    if (folder.parent_path().filename() != "firmware" || !fs::is_directory(firmware)) {
        return {};
    }
    const bool wormhole = command.script.find("/wormhole/") != std::string::npos;  // its ethernet cores have one RISC-V
    fs::path chosen;
    for (const auto& build : fs::directory_iterator(firmware)) {
        const fs::path core = build.path() / folder.filename() / (folder.filename().string() + ".elf");
        if (fs::exists(build.path() / "erisc") == wormhole && fs::exists(core) && (chosen.empty() || core < chosen)) {
            chosen = core;
        }
    }
    return chosen.empty() ? std::string{} : read(chosen.string());
}

// The kernel's own name in <cache>/<build>/kernels/<name>/<hash>/<core>/<core>.<number of the run>.elf
std::string kernel_name(const std::string& output) {
    const auto kernels = output.rfind("/kernels/");
    const std::string name = kernels == std::string::npos ? output : output.substr(kernels);
    return name.substr(0, name.find('.', name.rfind('/')));
}

uint32_t hash(const std::string& text) {  // FNV-1a
    uint32_t value = 2166136261u;
    for (const unsigned char byte : text) {
        value = (value ^ byte) * 16777619u;
    }
    return value;
}

class Image {
public:
    uint32_t add(const void* bytes, size_t size) {
        content_.resize((content_.size() + 3) & ~size_t{3});
        const auto offset = static_cast<uint32_t>(content_.size());
        content_.append(static_cast<const char*>(bytes), size);
        return offset;
    }
    template <typename T>
    uint32_t add(const std::vector<T>& items) {
        return add(items.data(), items.size() * sizeof(T));
    }
    template <typename T>
    void replace(uint32_t offset, const T& value) {
        std::memcpy(content_.data() + offset, &value, sizeof value);
    }
    const std::string& content() const { return content_; }

private:
    std::string content_;
};

std::string link(const Script& script, const std::string& name) {
    const bool small = std::getenv("TTMEM_SMALL_KERNELS") != nullptr;
    const uint32_t seed = hash(name);
    Words text{JUMP_TO_NEXT};
    text.resize(small ? 2 : 1 + TEXT_WORDS_MIN + seed % TEXT_WORDS_SPAN, NOP);
    text.push_back(RET);
    const Words data(small ? 0 : (seed >> 16) % DATA_WORDS_SPAN, seed);
    const auto text_size = static_cast<uint32_t>(text.size() * sizeof(uint32_t));
    const auto data_size = static_cast<uint32_t>(data.size() * sizeof(uint32_t));
    const Script::Place code = script.text(), variables = script.data();

    enum { NONE, TEXT, DATA, RELA, SYMTAB, STRTAB, SHSTRTAB, SECTIONS };
    const char section_names[] = "\0.text\0.data\0.rela.text\0.symtab\0.strtab\0.shstrtab";
    const char symbol_names[] = "\0_start\0kernel_main";

    std::vector<Elf32_Sym> symbols(3);
    for (uint32_t i : {1u, 2u}) {
        symbols[i].st_name = i == 1 ? 1 : 8;
        symbols[i].st_value = code.address + (i == 1 ? 0 : 4);
        symbols[i].st_info = ELF32_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbols[i].st_shndx = TEXT;
    }
    // The loader makes kernels independent of their place and refuses one without relocations.
    const std::vector<Elf32_Rela> relocations{{code.address, ELF32_R_INFO(2, R_RISCV_JAL), 0}};

    Elf32_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS32;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = EM_RISCV;
    header.e_version = EV_CURRENT;
    header.e_entry = code.address;
    header.e_ehsize = sizeof(Elf32_Ehdr);
    header.e_phentsize = sizeof(Elf32_Phdr);
    header.e_phnum = data.empty() ? 1 : 2;
    header.e_shentsize = sizeof(Elf32_Shdr);
    header.e_shnum = SECTIONS;
    header.e_shstrndx = SHSTRTAB;

    Image image;
    image.add(&header, sizeof header);
    std::vector<Elf32_Phdr> segments(header.e_phnum);
    header.e_phoff = image.add(segments);

    std::vector<Elf32_Shdr> sections(SECTIONS);
    const auto section = [&](int index, uint32_t name_at, uint32_t type, uint32_t flags, uint32_t address,
                             uint32_t offset, uint32_t size, uint32_t entry) {
        sections[index] = {name_at, type, flags, address, offset, size, 0, 0, 4, entry};
    };
    section(TEXT, 1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code.address, image.add(text), text_size, 0);
    segments[0] = {PT_LOAD, sections[TEXT].sh_offset, code.address, code.address, text_size, text_size, PF_R | PF_X, 4};
    if (data.empty()) {  // a section without a segment must not be one that is loaded
        section(DATA, 7, SHT_PROGBITS, 0, 0, image.add(data), 0, 0);
    } else {
        section(DATA, 7, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, variables.address, image.add(data), data_size, 0);
        const uint32_t loaded_at = variables.packed ? code.address + text_size : variables.address;
        segments[1] = {
            PT_LOAD, sections[DATA].sh_offset, variables.address, loaded_at, data_size, data_size, PF_R | PF_W, 4};
    }
    section(RELA, 13, SHT_RELA, 0, 0, image.add(relocations), sizeof(Elf32_Rela), sizeof(Elf32_Rela));
    sections[RELA].sh_link = SYMTAB;
    sections[RELA].sh_info = TEXT;
    section(SYMTAB, 24, SHT_SYMTAB, 0, 0, image.add(symbols), 3 * sizeof(Elf32_Sym), sizeof(Elf32_Sym));
    sections[SYMTAB].sh_link = STRTAB;
    sections[SYMTAB].sh_info = 1;
    section(STRTAB, 32, SHT_STRTAB, 0, 0, image.add(symbol_names, sizeof symbol_names), sizeof symbol_names, 0);
    section(SHSTRTAB, 40, SHT_STRTAB, 0, 0, image.add(section_names, sizeof section_names), sizeof section_names, 0);
    header.e_shoff = image.add(sections);
    for (size_t i = 0; i < segments.size(); i++) {
        image.replace(header.e_phoff + i * sizeof(Elf32_Phdr), segments[i]);
    }
    image.replace(0, header);
    return image.content();
}

}  // namespace

int main(int count, char** arguments) {
    const Command command = parse(count, arguments);
    if (command.version) {
        std::printf("riscv-tt-elf-g++ (tenstorrent/sfpi:%s) 15.1.0\n", version_of(root_of(arguments[0])).c_str());
        return 0;
    }
    if (command.output.empty()) {
        fail("no -o");
    }
    if (command.compiles) {
        write(command.output, "");
        if (!command.dependencies.empty()) {
            write(command.dependencies, command.output + ":\n");
        }
        return 0;
    }
    if (command.script.empty()) {
        fail("no linker script (-T)");
    }
    const std::string firmware = prebuilt(command, root_of(arguments[0]) / "tt_metal" / "pre-compiled");
    write(command.output, firmware.empty() ? link(Script(command), kernel_name(command.output)) : firmware);
    return 0;
}
