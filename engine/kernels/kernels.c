/*
 * Which level of the ladder this machine can climb, and its table.
 *
 * CPUID says what the processor has, XGETBV what the operating system saves at a context switch;
 * both must agree. Tiles need the kernel's permission besides, and must prove themselves.
 */
#include "engine/kernels/kernels.h"

#include <cpuid.h>

#include "engine/kernels/levels.h"

/* MXCSR: flush results, treat inputs as zero, all exceptions masked, round to nearest. */
enum { MXCSR_COMPUTE = 0x8000 | 0x0040 | 0x1F80 };

void tr_fp_enter(void)
{
    __builtin_ia32_ldmxcsr(MXCSR_COMPUTE);
}

static uint64_t read_xcr0(void)
{
    uint32_t lo;
    uint32_t hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

enum tr_isa tr_isa_detect(void)
{
    enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xE6, XCR0_TILES = 0x60000 };
    const uint32_t amx_bf16_tile_int8 = 1U << 22 | 1U << 24 | 1U << 25;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C))
        return TR_ISA_GENERIC;
    uint64_t saved = read_xcr0();
    if ((saved & XCR0_AVX) != XCR0_AVX || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !has(b, bit_AVX2))
        return TR_ISA_GENERIC;
    if ((saved & XCR0_AVX512) != XCR0_AVX512 ||
        !has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) ||
        !has(c, bit_AVX512VNNI))
        return TR_ISA_AVX2;
    if ((saved & XCR0_TILES) != XCR0_TILES || !has(d, amx_bf16_tile_int8) || !tr__amx_usable())
        return TR_ISA_AVX512;
    return TR_ISA_AMX;
}

const char *tr_isa_name(enum tr_isa isa)
{
    static const char *const names[] = {
        [TR_ISA_GENERIC] = "generic", [TR_ISA_AVX2] = "avx2", [TR_ISA_AVX512] = "avx512",
        [TR_ISA_AMX] = "amx",         [TR_ISA_AUTO] = "auto",
    };
    return names[isa];
}

const struct tr_kernels *tr_kernels_select(enum tr_isa limit)
{
    enum tr_isa level = TR_MIN(limit, tr_isa_detect());
    switch (level) {
    case TR_ISA_AMX:
        return &tr__kernels_amx;
    case TR_ISA_AVX512:
        return &tr__kernels_avx512;
    case TR_ISA_AVX2:
        return &tr__kernels_avx2;
    default:
        return &tr__kernels_generic;
    }
}
