! smartmap: include/smartmap.h for Fortran. Arguments and results are as there;
! addresses are type(c_ptr), as c_loc gives them and c_f_pointer takes them.
module smartmap
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: smartmap_remote, smartmap_rank, smartmap_size, smartmap_attach, &
            smartmap_join, smartmap_exports, smartmap_reachable, smartmap_alive

  integer(c_int), parameter, public :: smartmap_slot_shift = 39
  integer(c_int), parameter, public :: smartmap_max_ranks = 254

  interface
    integer(c_int) function smartmap_rank() bind(c, name='smartmap_f_rank')
      import :: c_int
    end function
    integer(c_int) function smartmap_size() bind(c, name='smartmap_f_size')
      import :: c_int
    end function
    integer(c_int) function smartmap_attach(rank, pid) bind(c, name='smartmap_f_attach')
      import :: c_int
      integer(c_int), value :: rank, pid
    end function
    integer(c_int) function smartmap_join(timeout_ms) bind(c, name='smartmap_f_join')
      import :: c_int
      integer(c_int), value :: timeout_ms
    end function
    integer(c_int) function smartmap_exports(address, bytes) &
        bind(c, name='smartmap_f_exports')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function smartmap_reachable(rank, address, bytes) &
        bind(c, name='smartmap_f_reachable')
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: rank
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function smartmap_alive(rank) bind(c, name='smartmap_f_alive')
      import :: c_int
      integer(c_int), value :: rank
    end function
  end interface

contains

  ! The address at which this process sees `address` of rank `rank`.
  type(c_ptr) function smartmap_remote(rank, address)
    integer(c_int), intent(in) :: rank
    type(c_ptr), intent(in) :: address
    integer(c_intptr_t) :: slot
    slot = shiftl(int(rank + 1, c_intptr_t), smartmap_slot_shift)
    smartmap_remote = transfer(ior(slot, transfer(address, slot)), smartmap_remote)
  end function

end module
