#include "library/cudnn_role.h"

enum role role_of(int attribute) {
    static const unsigned char roles[] = {
#include "cudnn_roles.h"
    };
    return attribute >= 0 && (unsigned)attribute < sizeof roles ? (enum role)roles[attribute] : ROLE_UNKNOWN;
}
