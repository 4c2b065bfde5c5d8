#include "base/likeness.h"

#include <string.h>

int likeness(const char *a, size_t length, const char *b) {
    unsigned char common[LIKENESS_LENGTH_MAX + 1] = {0}; /* of a so far and each beginning of b */
    size_t other = strlen(b);
    if (length > LIKENESS_LENGTH_MAX || other > LIKENESS_LENGTH_MAX || length + other == 0)
        return 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char before = 0; /* of a without its last, and of b without its last */
        for (size_t j = 1; j <= other; j++) {
            unsigned char above = common[j];
            if (a[i] == b[j - 1])
                common[j] = before + 1;
            else if (common[j - 1] > above)
                common[j] = common[j - 1];
            before = above;
        }
    }
    return (int)(200u * common[other] / (length + other));
}
