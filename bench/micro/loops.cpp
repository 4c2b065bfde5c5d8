/* The same look-up by std::map. */
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

using Map = std::map<std::uint64_t, std::uint64_t>;

extern "C" Map *map_new(const std::uint64_t *starts, const std::uint64_t *ends, std::size_t n,
                        const std::uint32_t *order) {
    Map *m = new Map;
    for (std::size_t i = 0; i < n; i++)
        m->emplace(starts[order[i]], ends[order[i]]);
    return m;
}

extern "C" void map_delete(Map *m) {
    delete m;
}

extern "C" std::uint64_t loop_map(const Map *m, const std::uint64_t *pointers, std::size_t set, std::size_t times) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < times; i++) {
        std::uint64_t p = pointers[i & (set - 1)];
        auto found = m->upper_bound(p);
        if (found != m->begin() && p < std::prev(found)->second)
            sum += std::prev(found)->first;
    }
    return sum;
}
