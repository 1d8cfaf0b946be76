! Through the Fortran module: each rank reads its neighbour's allocatable array
! and writes into it. The program around it is ring.c.
integer(c_int) function rank_main(rank, size, mode) bind(c, name='rank_main') result(wrong)
  use, intrinsic :: iso_c_binding
  use smartmap
  implicit none
  integer(c_int), value :: rank, size
  type(c_ptr), value :: mode
  integer, parameter :: n = 50000
  real(c_double), allocatable, target :: mine(:)
  real(c_double), pointer :: theirs(:)
  real(c_double), target :: on_stack
  type(c_ptr) :: address
  integer(c_int) :: next
  integer :: i
  interface
    type(c_ptr) function board_exchange(rank, size, address) bind(c)
      import :: c_int, c_ptr
      integer(c_int), value :: rank, size
      type(c_ptr), value :: address
    end function
    integer(c_int) function board_sees_all() bind(c)
      import :: c_int
    end function
    subroutine board_meet(step, size) bind(c)
      import :: c_int
      integer(c_int), value :: step, size
    end subroutine
  end interface

  wrong = 1
  if (smartmap_rank() /= rank .or. smartmap_size() /= size) return
  if (smartmap_join(60000_c_int) /= 0) return
  allocate (mine(n))
  mine = [(1000.0d0 * rank + i, i = 1, n)]
  if (smartmap_exports(c_loc(mine), n * 8_c_size_t) == 0) return
  if (smartmap_exports(c_loc(on_stack), 8_c_size_t) /= board_sees_all()) return

  next = modulo(rank + 1, size)
  address = board_exchange(rank, size, c_loc(mine))
  if (smartmap_alive(next) == 0) return
  if (smartmap_reachable(next, address, n * 8_c_size_t) == 0) return
  call c_f_pointer(smartmap_remote(next, address), theirs, [n])
  if (any(theirs /= [(1000.0d0 * next + i, i = 1, n)])) return
  call board_meet(1_c_int, size)
  theirs(7) = -rank
  call board_meet(2_c_int, size)
  if (mine(7) /= -modulo(rank + size - 1, size)) return
  call board_meet(3_c_int, size)
  wrong = 0
end function
