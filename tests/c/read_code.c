/* What `csrc/code` reads, in words, for tests in Python:
 *
 *     read_code decode < lines of `ARCHITECTURE LOW HIGH`, an instruction's halves in hexadecimal
 *     read_code cubins ARCHITECTURE FILE FOLDER
 *     read_code kernels CUBIN...
 *     read_code code < lines of `NAME ARCHITECTURE PARAMETERS BYTES POINTERS CODE`
 *     read_code cubin NAME
 *     read_code zstd < for each frame its bytes and those of its content, of 4 bytes each, and the frame
 *
 * `decode` prints for each: the operation's number, and what is written, may be written and is read, the numbers, the
 * signs of a, b and c, the target. `cubins` writes the cubins for the architecture, from all fat binaries in a file,
 * into a folder, and prints their paths. `kernels` prints for each kernel: its name, the verdict, why, instructions and
 * steps, words that are read, written and stored, then for each rule the words of which one, and none, is an address.
 * `code` prints the same of kernels without functions: where their parameters begin in bank 0, their bytes, the words
 * that may be pointers, as bits, and the code, in hexadecimal. `cubin`
 * writes one with the kernel of that name in tests/reference/kernels.txt. `zstd` writes a byte, 1 for frames that can
 * be read, and their content. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "code/decode.h"
#include "code/file.h"
#include "code/image.h"
#include "code/unpack.h"
#include "code/verdict.h"
#include "code_cubin.h"

static void print_registers(bool uniform, uint32_t first, uint32_t words) {
    for (uint32_t i = 0; i < words; i++)
        printf("%sR%u ", uniform ? "U" : "", first + i);
}

static void print_operand(const struct operand *o) {
    if (o->kind == OPERAND_REGISTER || o->kind == OPERAND_UNIFORM)
        print_registers(o->kind == OPERAND_UNIFORM, o->index, o->words);
    if (o->kind == OPERAND_CONSTANT && o->index != NO_REGISTER)
        print_registers(o->index_uniform, o->index, 1);
}

static void print_predicate(struct predicate p) {
    if (p.index != NO_PREDICATE)
        printf("%sP%u ", p.uniform ? "U" : "", p.index);
}

static void print_writes(const struct instruction *i) {
    if (i->to.first != NO_REGISTER)
        print_registers(i->to.uniform, i->to.first, i->to.words);
    for (uint8_t p = 0; p < NO_PREDICATE; p++)
        if (i->writes >> p & 1)
            print_predicate((struct predicate){p, i->writes_uniform, false});
    printf("\t");
    if (i->to.first != NO_REGISTER)
        print_registers(i->to.uniform, i->to.first + i->to.words, i->to.maybe);
    printf("\t");
}

static void print_reads(const struct instruction *i) {
    const struct operand *operand[3] = {&i->a, &i->b, &i->c};
    for (int n = 0; n < 3; n++) {
        print_operand(operand[n]);
        print_predicate(i->reads[n]);
    }
    print_predicate(i->guard);
    if (i->memory.index != NO_REGISTER)
        print_registers(false, i->memory.index, i->memory.words);
    if (i->memory.uniform != NO_REGISTER)
        print_registers(true, i->memory.uniform, i->memory.words);
    printf("\t");
}

static void print_numbers(const struct instruction *i) {
    const struct operand *operand[3] = {&i->a, &i->b, &i->c};
    for (int n = 0; n < 3; n++)
        if (operand[n]->kind == OPERAND_CONSTANT)
            printf("c%u:%d ", operand[n]->bank, operand[n]->offset);
        else if (operand[n]->kind == OPERAND_NUMBER && operand[n]->number)
            printf("%" PRIu64 " ", operand[n]->number);
    if (i->memory.offset)
        printf("+%d ", i->memory.offset);
    printf("\t%c%c%c\t%" PRId64 "\n", "+-"[i->a.negated], "+-"[i->b.negated], "+-"[i->c.negated], i -> target);
}

static int decode_all(void) {
    uint32_t architecture;
    uint64_t half[2];
    struct instruction i;
    while (scanf("%" SCNu32 " %" SCNx64 " %" SCNx64, &architecture, &half[0], &half[1]) == 3) {
        decode((const uint8_t *)half, architecture, &i);
        printf("%d\t", i.operation);
        print_writes(&i);
        print_reads(&i);
        print_numbers(&i);
    }
    return 0;
}

static struct view map_file(const char *path) {
    struct stat s;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &s) != 0)
        exit(2);
    void *at = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    return at == MAP_FAILED ? (struct view){NULL, 0} : (struct view){at, (uint64_t)s.st_size};
}

static void write_cubin(const struct view *cubin, const char *folder, const char *file) {
    static int number;
    char path[4096];
    const char *slash = strrchr(file, '/');
    snprintf(path, sizeof path, "%s/%s.%d.cubin", folder, slash ? slash + 1 : file, number++);
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(cubin->at, cubin->bytes, 1, to) != 1 || fclose(to) != 0)
        exit(2);
    puts(path);
}

static int write_cubins(uint32_t architecture, const char *path, const char *folder) {
    struct view file = map_file(path), found;
    struct code_image image;
    uint64_t at = 0;
    while (code_file_next(&file, &at, &found)) {
        code_image_open(&image, found.at, found.bytes, architecture, true);
        for (uint32_t i = 0; i < image.cubins; i++)
            write_cubin(&image.cubin[i], folder, path);
        code_image_close(&image);
    }
    return 0;
}

static void print_words(const struct words *w) {
    bool all = words_count(w) == KERNEL_WORDS;
    printf(all ? "\tall" : "\t");
    for (uint32_t word = 0; word < KERNEL_WORDS && !all; word++)
        if (words_have(w, word))
            printf("%u ", word);
}

static void print_verdict(const struct kernel *k, bool whole) {
    struct kernel_verdict v = {.reason = "an odd kernel"};
    if (whole)
        verdict_of(k, &v);
    printf("%s\t%s\t%s\t%" PRIu64 "\t%u", k->name, verdict_word(v.verdict), v.reason ? v.reason : "",
           k->text.bytes / 16, v.steps);
    print_words(&v.reads);
    print_words(&v.writes);
    print_words(&v.stores);
    for (uint32_t r = 0; r < v.rules; r++) {
        print_words(&v.rule[r].one);
        print_words(&v.rule[r].none);
    }
    puts("");
}

static int print_kernels(const char *path) {
    struct view file = map_file(path);
    struct cubin c;
    static struct kernel k;
    if (!cubin_open(&c, file))
        return 1;
    for (uint32_t i = 0; i < c.sections; i++) {
        bool whole = cubin_kernel(&c, i, &k);
        if (whole || (k.name && k.text.bytes))
            print_verdict(&k, whole);
    }
    return 0;
}

static int print_code(void) {
    static struct kernel k;
    static char name[256], code[1 << 16];
    static uint8_t text[sizeof code / 2];
    unsigned value;
    while (k = (struct kernel){.name = name, .text = {text, 0}, .functions = 1},
           scanf("%255s %" SCNu32 " %" SCNx32 " %" SCNu32 " %" SCNx64 " %65535s", name, &k.architecture, &k.parameters,
                 &k.parameter_bytes, &k.pointer.bit[0], code) == 6) {
        for (; sscanf(code + 2 * k.text.bytes, "%2x", &value) == 1; k.text.bytes++)
            text[k.text.bytes] = (uint8_t)value;
        print_verdict(&k, true);
    }
    return 0;
}

static int unpack_frames(void) {
    uint32_t bytes[2];
    while (fread(bytes, sizeof bytes, 1, stdin) == 1) {
        uint8_t *from = malloc(bytes[0] + 1u), *to = malloc(bytes[1] + 1u);
        if (!from || !to || fread(from, 1, bytes[0], stdin) != bytes[0])
            return 1;
        bool whole = unpack_zstd(to, bytes[1], (struct view){from, bytes[0]});
        putchar(whole);
        fwrite(to, 1, whole ? bytes[1] : 0, stdout);
        free(from);
        free(to);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(what, "decode") == 0)
        return decode_all();
    if (argc == 2 && strcmp(what, "code") == 0)
        return print_code();
    if (argc == 3 && strcmp(what, "cubin") == 0) {
        struct bytes b = code_cubin(KERNELS, argv[2], argv[2]);
        return fwrite(b.at, b.count, 1, stdout) != 1;
    }
    if (argc == 2 && strcmp(what, "zstd") == 0)
        return unpack_frames();
    if (argc == 5 && strcmp(what, "cubins") == 0)
        return write_cubins((uint32_t)atoi(argv[2]), argv[3], argv[4]);
    int status = argc > 2 && strcmp(what, "kernels") == 0 ? 0 : 2;
    for (int i = 2; i < argc && status == 0; i++)
        status = print_kernels(argv[i]);
    return status;
}
