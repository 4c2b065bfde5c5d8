#include "test.h"

#include "code/decode.h"

static const uint32_t architectures[] = {75, 80, 86, 89, 90, 100, 103, 120, 121};

static bool in_file(uint32_t first, uint32_t words, bool uniform, uint32_t architecture) {
    return first == NO_REGISTER || first + words <= (uniform && architecture < 100 ? 63 : NO_REGISTER);
}

static void check(const struct instruction *i, uint32_t architecture) {
    const struct operand *operand[3] = {&i->a, &i->b, &i->c};
    CHECK(in_file(i->to.first, i->to.words + i->to.maybe, i->to.uniform, architecture));
    CHECK(in_file(i->memory.index, i->memory.words, false, architecture));
    CHECK(in_file(i->memory.uniform, i->memory.words, true, architecture));
    for (int n = 0; n < 3; n++) {
        const struct operand *o = operand[n];
        if (o->kind == OPERAND_REGISTER || o->kind == OPERAND_UNIFORM)
            CHECK(in_file(o->index, o->words, o->kind == OPERAND_UNIFORM, architecture));
        CHECK(i->reads[n].index <= NO_PREDICATE);
    }
    CHECK(i->guard.index <= NO_PREDICATE);
    CHECK_EQ(i->target % 4, 0);
}

TEST(registers_of_random_instructions_exist) {
    uint64_t state = 1, known = 0;
    for (int round = 0; round < 300000; round++) {
        uint64_t half[2];
        struct instruction i;
        for (int h = 0; h < 4; h++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            half[h / 2] = half[h / 2] << 32 | state >> 32;
        }
        uint32_t architecture = architectures[round % 9];
        decode((const uint8_t *)half, architecture, &i);
        if (i.operation == OP_UNKNOWN)
            continue;
        CHECK(decode_knows(architecture));
        check(&i, architecture);
        known++;
    }
    CHECK(known > 10000);
}
