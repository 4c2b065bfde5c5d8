#include "share/size.h"

#include <string.h>
#include <strings.h>

/* Bytes in one unit: "", "K", "KiB", "KB" and so on, all powers of 1024; 0: no such unit. */
static uint64_t unit_bytes(const char *text) {
    static const char units[] = "KMGT";
    uint64_t bytes = 1;
    const char *u = *text ? strchr(units, *text & ~0x20) : NULL;
    if (u) {
        bytes = (uint64_t)1 << (10 * (u - units + 1));
        text++;
    }
    return *text == 0 || strcasecmp(text, "b") == 0 || (u && strcasecmp(text, "ib") == 0) ? bytes : 0;
}

/* By hand: the program may have set a locale in which strtod expects a decimal comma. */
bool size_parse(const char *text, uint64_t *size) {
    unsigned __int128 number = 0;
    uint64_t scale = 1;
    bool digits = false, point = false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && digits && !point); text++) {
        if (*text == '.') {
            point = true;
        } else if (number >> 64 || scale > UINT64_MAX / 100) {
            return false;
        } else {
            number = 10 * number + (unsigned)(*text - '0');
            scale *= point ? 10 : 1;
            digits = true;
        }
    }
    if (!digits || text[-1] == '.')
        return false;
    text += *text == ' ';
    uint64_t unit = unit_bytes(text);
    unsigned __int128 bytes = number * unit / scale;
    if (bytes == 0 || bytes > UINT64_MAX)
        return false;
    *size = (uint64_t)bytes;
    return true;
}
