// SPDX-License-Identifier: Apache-2.0
// Lets an agent that was built with a new glibc load with an old one. From version 13 on, the libstdc++ that is linked
// into the agent calls __isoc23_strtoul, which only glibc 2.38 and newer have; this one is found first.

extern "C" {
// By its name in the library: newer headers make `strtoul` mean the function below.
unsigned long ttmem_old_strtoul(const char* text, char** end, int base) __asm__("strtoul");

unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return ttmem_old_strtoul(text, end, base); }
}
