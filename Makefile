# trinityd: everything is built out of tree, in $(BUILD). `make help` lists the targets.
#
# A source file is part of the program because it stands in config/, engine/ or server/; a C file with a main under
# tests/ is a test program, except in the folders of TOOL_DIRS, whose programs other tests run.

BUILD   ?= build
PREFIX  ?= /usr/local
CFLAGS  ?= -O2 -g
WERROR  ?= -Werror
HARDEN  ?= -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fcf-protection
PARTS   ?= config engine server
# Where the configuration file goes: /etc for a package, below the prefix otherwise.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)

# ---- flags ----

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wcast-qual -Wwrite-strings -Wstrict-prototypes \
        -Wmissing-prototypes -Wundef -Wvla -Wformat=2 -Wdouble-promotion -Wconversion -Wno-sign-conversion \
        -Wimplicit-fallthrough
ifeq ($(findstring clang,$(CC)),)
WARN += -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init
endif

# SAN names a sanitizer build: address, thread, or fuzz (clang only). UndefinedBehaviorSanitizer and -Wconversion
# disagree about harmless code, so these builds do not turn warnings into errors.
SAN_FLAGS_address := -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_FLAGS_thread  := -fsanitize=thread
SAN_FLAGS_fuzz    := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
SAN_FLAGS := $(SAN_FLAGS_$(SAN))
ifneq ($(SAN),)
WERROR :=
HARDEN :=
CFLAGS := -O1 -g
endif

# Contraction is off everywhere: the same bits on every x86 need every fma to be written as one.
BASE_FLAGS := -std=c17 -D_GNU_SOURCE -I. -ffp-contract=off -fno-omit-frame-pointer -pthread
ALL_CFLAGS  = $(BASE_FLAGS) $(CFLAGS) $(WARN) $(WERROR) $(HARDEN) $(SAN_FLAGS) $(CPPFLAGS) -MMD -MP
ALL_LDFLAGS = $(LDFLAGS) $(SAN_FLAGS) -pthread -Wl,-z,relro,-z,now
LIBS       := -lmicrohttpd -luv -ljansson -lpcre2-8 -lopenblas -lm

# One instruction set a file; no other file has any.
KERNEL_FLAGS := $(if $(SAN),,-O3) -fno-math-errno -fno-trapping-math
AVX2_FLAGS   := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
AMX_FLAGS    := $(AVX512_FLAGS) -mamx-tile -mamx-int8 -mamx-bf16
$(BUILD)/engine/kernels/%.o:        KERNEL = $(KERNEL_FLAGS)
$(BUILD)/engine/kernels/%_avx2.o:   KERNEL = $(KERNEL_FLAGS) $(AVX2_FLAGS)
$(BUILD)/engine/kernels/%_avx512.o: KERNEL = $(KERNEL_FLAGS) $(AVX512_FLAGS)
$(BUILD)/engine/kernels/%_amx.o:    KERNEL = $(KERNEL_FLAGS) $(AMX_FLAGS)

# ---- files ----

SRC      := $(sort $(shell find $(PARTS) -name '*.c' 2>/dev/null))
OBJ      := $(SRC:%.c=$(BUILD)/%.o)
LIB      := $(BUILD)/libtrinity.a
LIB_OBJ  := $(filter-out $(BUILD)/server/main.o,$(OBJ))
HEADERS  := $(sort $(shell find config engine server tests -name '*.h' 2>/dev/null))

TOOL_DIRS := tests/tools tests/template tests/bench
TEST_ALL  := $(filter-out tests/fuzz/%,$(sort $(shell find tests -name '*.c' 2>/dev/null)))
TEST_MAIN := $(if $(TEST_ALL),$(shell grep -l '^int main' $(TEST_ALL)))
TEST_HELP := $(filter-out $(TEST_MAIN),$(TEST_ALL))
TOOL_SRC  := $(foreach d,$(TOOL_DIRS),$(filter $(d)/%,$(TEST_MAIN)))
TEST_SRC  := $(filter-out $(TOOL_SRC),$(TEST_MAIN))
TESTS     := $(TEST_SRC:%.c=$(BUILD)/%)
TOOLS     := $(TOOL_SRC:%.c=$(BUILD)/%)
HELP_OBJ  := $(TEST_HELP:%.c=$(BUILD)/%.o)
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ      := $(FUZZ_SRC:%.c=$(BUILD)/%)

.PHONY: build objs tests run test unit bench asan tsan fuzz regress lint format format-check tidy check install \
        uninstall image clean help FORCE
.DEFAULT_GOAL := build
.SECONDARY:
.SECONDEXPANSION:
.DELETE_ON_ERROR:

# `make V=1` shows whole commands.
Q   := $(if $(V),,@)
say  = @$(if $(V),:,printf '%-3s %s\n' $(1) $(2))

# ---- compiling ----

build: $(BUILD)/trinityd ## the daemon: build/trinityd

objs: $(OBJ) $(TESTS:%=%.o) ## every object, nothing linked (use with -k)

tests: $(TESTS) $(TOOLS) $(if $(filter fuzz,$(SAN)),,$(FUZZ)) ## the C test programs, without running them

# Stamps that change when the compiler or a flag does (everything is built again), or the list of files.
$(BUILD)/flags: STAMP = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(KERNEL_FLAGS) $(AMX_FLAGS)
$(BUILD)/list:  STAMP = $(LIB_OBJ)
$(BUILD)/flags $(BUILD)/list: FORCE
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(KERNEL) -c -o $@ $<

$(LIB): $(LIB_OBJ) $(BUILD)/list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

$(BUILD)/trinityd: $(BUILD)/server/main.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# A test program is linked with the C files of its folder that have no main.
$(TESTS) $(TOOLS): $(BUILD)/%: $(BUILD)/%.o $$(filter $$(@D)/%,$(HELP_OBJ)) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LIBS)

# A fuzz target is linked with libFuzzer, or with a main that replays files.
ifeq ($(SAN),fuzz)
$(FUZZ): $(BUILD)/%: $(BUILD)/%.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
else
$(FUZZ): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/tests/fuzz/replay.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
endif

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
