/* hidden.h's kernels for a GPU, compiled by its driver. */
#include "hidden.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

#define HEAD                                                                                                           \
    ".version 7.0\n"                                                                                                   \
    ".target sm_75\n"                                                                                                  \
    ".address_size 64\n"                                                                                               \
    ".visible .global .align 8 .u64 " HIDDEN_VARIABLE ";\n"                                                            \
    ".visible .const .align 8 .u64 " HIDDEN_CONSTANT ";\n"

#define REGISTERS                                                                                                      \
    ".reg .pred %p, %q;\n"                                                                                             \
    ".reg .u32 %add, %r, %i32, %a, %b, %c;\n"                                                                          \
    ".reg .u64 %y, %n, %i, %step, %at, %slot, %end, %x;\n"

/* Changes the n words at y: every thread its part. `label` keeps the copies apart. */
#define CHANGE(label) CHANGE_BY(label, "")
/* `more` is added to %r, of the word %i32. */
#define CHANGE_BY(label, more)                                                                                         \
    "mov.u32 %a, %ctaid.x;\n"                                                                                          \
    "mov.u32 %b, %ntid.x;\n"                                                                                           \
    "mov.u32 %c, %tid.x;\n"                                                                                            \
    "mad.lo.u32 %a, %a, %b, %c;\n"                                                                                     \
    "cvt.u64.u32 %i, %a;\n"                                                                                            \
    "mov.u32 %a, %nctaid.x;\n"                                                                                         \
    "mul.wide.u32 %step, %a, %b;\n" label "_next:\n"                                                                   \
    "setp.ge.u64 %p, %i, %n;\n"                                                                                        \
    "@%p bra " label "_end;\n"                                                                                         \
    "shl.b64 %at, %i, 2;\n"                                                                                            \
    "add.u64 %at, %at, %y;\n"                                                                                          \
    "ld.global.u32 %r, [%at];\n"                                                                                       \
    "cvt.u32.u64 %i32, %i;\n"                                                                                          \
    "mad.lo.u32 %r, %r, 1664525, %add;\n"                                                                              \
    "add.u32 %r, %r, %i32;\n" more "st.global.u32 [%at], %r;\n"                                                        \
    "add.u64 %i, %i, %step;\n"                                                                                         \
    "bra " label "_next;\n" label "_end:\n"

/* clang-format off */
static const char image[] = HEAD
    ".visible .entry " HIDDEN_OPEN "(.param .u64 y, .param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %y, [y];\n"
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    CHANGE("open")
    "ret;\n"
    "}\n"

    ".visible .entry inside(.param .u64 y, .param .u64 skip, .param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %y, [y];\n"
    "ld.param.u64 %x, [skip];\n"
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    "shl.b64 %x, %x, 2;\n"
    "add.u64 %y, %y, %x;\n"
    CHANGE("inside")
    "ret;\n"
    "}\n"

    ".visible .entry part(.param .align 8 .b8 arguments[" TEXT(HIDDEN_ARGUMENTS) "]) {\n"
    REGISTERS
    "ld.param.u64 %y, [arguments];\n"
    "ld.param.u64 %n, [arguments+8];\n"
    "ld.param.u32 %add, [arguments+16];\n"
    CHANGE("part")
    "ret;\n"
    "}\n"

    ".visible .entry through(.param .u64 slots, .param .u64 count, .param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %slot, [slots];\n"
    "ld.param.u64 %x, [count];\n"
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    "shl.b64 %end, %x, 3;\n"
    "add.u64 %end, %end, %slot;\n"
    "each:\n"
    "setp.ge.u64 %q, %slot, %end;\n"
    "@%q bra done;\n"
    "ld.global.u64 %y, [%slot];\n"
    CHANGE("through")
    "add.u64 %slot, %slot, 8;\n"
    "bra each;\n"
    "done:\n"
    "ret;\n"
    "}\n"

    ".visible .entry through_variable(.param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    "ld.global.u64 %y, [" HIDDEN_VARIABLE "];\n"
    CHANGE("variable")
    "ret;\n"
    "}\n"

    ".visible .entry through_constant(.param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    "ld.const.u64 %y, [" HIDDEN_CONSTANT "];\n"
    CHANGE("constant")
    "ret;\n"
    "}\n"

    ".visible .entry follow(.param .u64 node, .param .u64 n, .param .u32 add) {\n"
    REGISTERS
    "ld.param.u64 %slot, [node];\n"
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    "each:\n"
    "setp.eq.u64 %q, %slot, 0;\n"
    "@%q bra done;\n"
    "ld.global.u64 %y, [%slot+8];\n"
    CHANGE("follow")
    "ld.global.u64 %slot, [%slot];\n"
    "bra each;\n"
    "done:\n"
    "ret;\n"
    "}\n"

    ".visible .entry " HIDDEN_SAMPLED "(.param .u64 texture, .param .u64 y, .param .u64 n, .param .u32 add) {\n"
    REGISTERS
    ".reg .u32 %t0, %t1, %t2, %t3;\n"
    "ld.param.u64 %x, [texture];\n"
    "ld.param.u64 %y, [y];\n"
    "ld.param.u64 %n, [n];\n"
    "ld.param.u32 %add, [add];\n"
    CHANGE_BY("sampled",
        "tex.1d.v4.u32.s32 {%t0, %t1, %t2, %t3}, [%x, {%i32}];\n"
        "add.u32 %r, %r, %t0;\n")
    "ret;\n"
    "}\n"

    ".visible .entry " HIDDEN_STORE "(.param .u64 slots, .param .u64 at, .param .u64 base, .param .u64 skip) {\n"
    REGISTERS
    "ld.param.u64 %slot, [slots];\n"
    "ld.param.u64 %i, [at];\n"
    "ld.param.u64 %y, [base];\n"
    "ld.param.u64 %x, [skip];\n"
    "shl.b64 %i, %i, 3;\n"
    "add.u64 %slot, %slot, %i;\n"
    "shl.b64 %x, %x, 2;\n"
    "add.u64 %y, %y, %x;\n"
    "st.global.u64 [%slot], %y;\n"
    "ret;\n"
    "}\n";
/* clang-format on */

const void *hidden_image(void) {
    return image;
}
