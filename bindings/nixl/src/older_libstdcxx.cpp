/*
 * The one function that containers of recent compilers take from a libstdc++ (3.4.29) that older
 * systems lack. NIXL's own wheels run with libstdc++ 3.4.25.
 */
#include <new>

namespace std {

void __throw_bad_array_new_length();
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
