/*
 * Whether AMX can be trusted here: permission, then the tile kernels against AVX-512 bit for bit.
 *
 * The comparison runs in a child process: a machine or hypervisor that announces tiles and faults
 * on them costs the level, not the daemon.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/kernels/levels.h"
#include "engine/kernels/panel.h"

enum { M = 27, N = 80, K = 512, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

/* Random bytes make valid quantised panels; scales and bf16 numbers get small exponents. */
static void fill(enum tr_wtype type, uint8_t *panels, size_t bytes)
{
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++)
        panels[i] = (uint8_t)next_random(&state);
    for (size_t i = 1; i < bytes && type == TR_W_BF16; i += 2)
        panels[i] = (uint8_t)((panels[i] & 0x80) | 0x3C);
    for (size_t at = 0; at < bytes && type != TR_W_BF16; at += tr__group_bytes(type)) {
        uint8_t *scales = panels + at + tr__scales_at(type);
        bool plain = type == TR_W_Q8_0 || type == TR_W_Q4_0;
        for (int i = plain ? 1 : TR_K_D + 1; i < (plain ? TR_LINE : TR_K_D + TR_LINE); i += 2)
            scales[i] = 0x20;
    }
}

static bool agrees(const struct tr_kernels *avx512, const struct tr_kernels *amx,
                   enum tr_wtype type)
{
    static _Alignas(64) uint8_t panels[N * K * 2];
    static float f32[M * K];
    static uint16_t bf16[M * K];
    static int8_t q8[M * K];
    static float scale[M * K / TR_BLOCK];
    static int32_t sum[M * K / TR_BLOCK];
    static float want[M * N];
    static float got[M * N];
    struct tr_rows x = {K, f32, bf16, q8, scale, sum};
    uint32_t state = 2;
    for (int i = 0; i < M * K; i++)
        f32[i] = (float)next_random(&state) / 16777216.0F - 0.5F;
    for (int r = 0; r < M; r++)
        tr_rows_prepare(avx512, &x, r, TR_FORM_BF16 | TR_FORM_Q8);
    fill(type, panels, tr_packed_bytes(type, N, K));
    for (int m = 1; m <= M; m += 13) { /* vectors only; one short tile; a full and a short one */
        avx512->gemm[type](panels, K, 0, N / TR_PANEL, &x, m, want, N);
        amx->gemm[type](panels, K, 0, N / TR_PANEL, &x, m, got, N);
        if (memcmp(want, got, (size_t)m * N * sizeof *got) != 0)
            return false;
    }
    return true;
}

static bool all_agree(const struct tr_kernels *avx512, const struct tr_kernels *amx)
{
    tr_fp_enter();
    for (enum tr_wtype type = TR_W_BF16; type < TR_W_COUNT; type++) {
        if (!agrees(avx512, amx, type))
            return false;
    }
    return true;
}

/* The verdict comes through shared memory: there is no exit status where SIGCHLD is ignored. */
static bool child_agrees(const struct tr_kernels *avx512, const struct tr_kernels *amx)
{
    atomic_bool *verdict =
        mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (verdict == MAP_FAILED)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        atomic_store(verdict, all_agree(avx512, amx));
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    bool good = atomic_load(verdict);
    munmap(verdict, sizeof *verdict);
    return good;
}

bool tr__amx_usable(const struct tr_kernels *avx512, const struct tr_kernels *amx)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 &&
           child_agrees(avx512, amx);
}
