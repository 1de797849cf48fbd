/*
 * Which levels of the ladder this machine can climb, and their tables.
 *
 * CPUID says what the processor has, XGETBV what the operating system saves at a context switch;
 * both must agree. Tiles need the kernel's permission besides, and must prove themselves.
 */
#include "engine/kernels/kernels.h"

#include <cpuid.h>
#include <pthread.h>

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

/* The best level by the processor's and the operating system's word. */
static enum tr_isa announced(void)
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
    if ((saved & XCR0_TILES) != XCR0_TILES || !has(d, amx_bf16_tile_int8))
        return TR_ISA_AVX512;
    return TR_ISA_AMX;
}

static struct tr_kernels tables[TR_ISA_AUTO];
static enum tr_isa best;

static void climb(void)
{
    static void (*const rungs[TR_ISA_AUTO][3])(struct tr_kernels * k) = {
        [TR_ISA_GENERIC] = {tr__add_generic, tr__add_generic_gemm, tr__add_generic_attn},
        [TR_ISA_AVX2] = {tr__add_avx2, tr__add_avx2_gemm},
        [TR_ISA_AVX512] = {tr__add_avx512, tr__add_avx512_gemm},
        [TR_ISA_AMX] = {tr__add_amx_gemm},
    };
    static const char *const names[TR_ISA_AUTO] = {"generic", "avx2", "avx512", "amx"};
    best = announced();
    for (enum tr_isa level = TR_ISA_GENERIC; level <= best; level++) {
        struct tr_kernels *k = &tables[level];
        if (level > TR_ISA_GENERIC)
            *k = tables[level - 1];
        k->level = level;
        k->name = names[level];
        for (size_t i = 0; i < TR_ARRAY_LEN(rungs[level]) && rungs[level][i]; i++)
            rungs[level][i](k);
    }
    if (best == TR_ISA_AMX && !tr__amx_usable(&tables[TR_ISA_AVX512], &tables[TR_ISA_AMX]))
        best = TR_ISA_AVX512;
}

enum tr_isa tr_isa_detect(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, climb);
    return best;
}

const struct tr_kernels *tr_kernels_select(enum tr_isa limit)
{
    return &tables[TR_MIN(limit, tr_isa_detect())];
}
