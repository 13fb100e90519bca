// SPDX-License-Identifier: Apache-2.0
// Says which ttmem this agent belongs to.

extern "C" __attribute__((visibility("default"))) const char* ttmem_agent_version() { return TTMEM_VERSION; }
