#include "base/page.h"

uint64_t page_bytes = PAGE_LEAST;
